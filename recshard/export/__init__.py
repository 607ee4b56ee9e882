"""Export: a plan handed to the systems that people train on."""

from recshard.export.targets import export_plan

__all__ = ["export_plan"]
