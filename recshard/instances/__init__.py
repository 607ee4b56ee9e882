"""The instance library: problems to measure strategies by, with proven bounds and best known placements."""

from recshard.instances.instance import Instance, instance_names, load_instance, open_instance
from recshard.instances.update import update_instance
from recshard.instances.verify import Verdict, verify_instance

__all__ = [
    "Instance",
    "Verdict",
    "instance_names",
    "load_instance",
    "open_instance",
    "update_instance",
    "verify_instance",
]
