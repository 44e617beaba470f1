"""Jinja templates: the prompts of models, as data, and how they are filled in."""

from ragtasks.prompts._templates import PromptTemplate, load_template, shipped_template

__all__ = ["PromptTemplate", "load_template", "shipped_template"]
