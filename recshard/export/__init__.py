"""Export: a plan handed to the systems that people train on."""

from recshard.export.fbgemm import export_plan

__all__ = ["export_plan"]
