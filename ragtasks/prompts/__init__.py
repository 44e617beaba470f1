"""Jinja templates of prompts, and their rendering."""

from ragtasks.prompts._templates import PromptTemplate, load_template, shipped_template

__all__ = ["PromptTemplate", "load_template", "shipped_template"]
