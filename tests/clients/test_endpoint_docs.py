"""Every key of an endpoint is in the documentation's table."""

from __future__ import annotations

import re
from pathlib import Path

from ragtasks.clients import Endpoint

PAGE = Path(__file__).resolve().parents[2] / "docs" / "endpoints.md"


def test_every_key_is_documented() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == set(Endpoint.model_fields)
