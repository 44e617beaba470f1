"""Corpora: passages streamed and checked, repeated ones found, documents cut."""
