"""Jinja templates of prompts, their rendering, and the official wording in the user's files."""

from ragtasks.prompts._official import (
    OfficialPrompt,
    UnreadableWordingError,
    constant_text,
    official_prompt,
    other_commit,
    parsed_source,
)
from ragtasks.prompts._templates import PromptTemplate, load_template, shipped_template

__all__ = [
    "OfficialPrompt",
    "PromptTemplate",
    "UnreadableWordingError",
    "constant_text",
    "load_template",
    "official_prompt",
    "other_commit",
    "parsed_source",
    "shipped_template",
]
