"""Fixtures for the tests of the precompute stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark


@pytest.fixture(scope="session")
def sample() -> Benchmark:
    """The sample benchmark in the package."""
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path("unused")))
