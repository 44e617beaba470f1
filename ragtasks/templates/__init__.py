"""Prompt templates: shipped ones are filled in here, a user's own in a process of its own with limits."""

from ragtasks.templates._template import PromptTemplate, load_template, shipped_template

__all__ = [
    "PromptTemplate",
    "load_template",
    "shipped_template",
]
