"""Fixtures that several test modules share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests._skips"]

# The same cases every time, and no stop-watch: how long a case takes is the machine's business.
settings.register_profile("ragtasks", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ragtasks")

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where the official files of benchmarks are looked for."""


@pytest.fixture(scope="session")
def mtrag_root() -> Path:
    """The real MTRAG checkout, or a skip that says where it was looked for."""
    root = REAL_DATA / "mt-rag-benchmark"
    if not (root / "mtrag-human").is_dir():
        pytest.skip(f"no real MTRAG data at {root}")
    return root
