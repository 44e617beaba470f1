"""Limits of scoring, put away for tests whose models say one thing to everybody."""

from __future__ import annotations

import pytest


def take_any_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have answers scored however implausible they are."""
    for module in ("_system", "_judge"):
        monkeypatch.setattr(f"ragtasks.scoring.{module}.require_plausible", lambda *_: None)
