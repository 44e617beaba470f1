"""Evaluations in the format that InspectorRAGet reads."""

from ragtasks.reports.inspector._export import export_inspector

__all__ = [
    "export_inspector",
]
