"""Corpora: read and check passages, detect duplicates, segment documents."""
