"""Jinja templates: the prompts of models, as data."""
