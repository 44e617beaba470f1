"""Jinja templates: what models are told, as data."""
