"""Shared fixtures of the tests of scoring: the sample, and separate folders for stored files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.scoring import Folders, take_failures


@pytest.fixture(scope="session")
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))  # without the human evaluation: anchors of the sample
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    take_failures()
    return Folders(tmp_path / "data", tmp_path / "store")
