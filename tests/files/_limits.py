"""Limits of readers, made small enough for a test."""

from __future__ import annotations

import pytest


def shorten_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every reader of lines refuse lines of more than 200 bytes."""
    monkeypatch.setattr("ragtasks.files._json_lines.LONGEST_LINE", 200)
