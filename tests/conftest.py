"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from tests._shared import SITE, made_once

pytest_plugins = ["pytester", "tests._groups", "tests._messages", "tests._skips"]

# The same cases every time, and no stop-watch: how long a case takes is the machine's business.
QUICK = [HealthCheck.too_slow]
settings.register_profile("ragtasks", max_examples=50, deadline=None, derandomize=True, suppress_health_check=QUICK)
settings.load_profile("ragtasks")

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where the official files of benchmarks are looked for."""
MTRAG_CHECKOUT = Path(
    os.environ.get("RAGTASKS_MTRAG_CHECKOUT") or Path(__file__).resolve().parents[2] / "official" / "mt-rag-benchmark"
)
"""Where IBM/mt-rag-benchmark at commit cc5b1d4 is looked for, scripts included."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where one marker is asked for alone, import only files that name it: all of them take longer than many tests."""
    marker = config.option.markexpr
    if not marker.isidentifier() or not collection_path.name.startswith("test_"):
        return None
    named = re.search(rf"\b({marker}|KILLS)\b", collection_path.read_text(encoding="utf-8"))
    return None if named else True


@pytest.fixture(scope="session", autouse=True)
def _the_command_line_is_built_once() -> Iterator[None]:
    """Typer builds all commands with their options at every call, longer than most of them take in this process."""
    built = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", built)
        patch.setattr("typer.testing._get_command", built)
        yield


@pytest.fixture(scope="session", autouse=True)
def _the_machine_is_not_described() -> Iterator[None]:
    """For the processes that tests start; `make run` in `.ci/run`, and the wheel's check, have the description."""
    places = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        yield


@pytest.fixture(scope="session")
def mtrag_root() -> Path:
    """The real MTRAG checkout, or a skip that says where it was looked for."""
    root = REAL_DATA / "mt-rag-benchmark"
    if not (root / "mtrag-human").is_dir():
        pytest.skip(f"no real MTRAG data at {root}")
    return root


@pytest.fixture(scope="session")
def mtrag_checkout() -> Path:
    """The official repository with its scripts, or a skip that says where it was looked for."""
    if not (MTRAG_CHECKOUT / "scripts" / "evaluation" / "judge_utils.py").is_file():
        pytest.skip(f"no checkout of IBM/mt-rag-benchmark at {MTRAG_CHECKOUT}: name one with RAGTASKS_MTRAG_CHECKOUT")
    return MTRAG_CHECKOUT


@pytest.fixture(scope="session")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the harness's output for two models, in `oracle` and `refuse`, as reports and logs read it."""
    from tests._evaluations import evaluate_sample

    return made_once(tmp_path_factory, "evaluations", evaluate_sample)
