"""The instance library: problems to measure strategies by, with proven bounds and best known placements."""

from recshard.instances.instance import Instance, instance_names, load_instance, open_instance

__all__ = ["Instance", "instance_names", "load_instance", "open_instance"]
