"""Fixtures shared by several test modules."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from tests._shared import SITE, made_once

pytest_plugins = ["pytester", "tests._groups", "tests._messages", "tests._skips"]

# Equal cases in every execution, and no deadline, because durations depend on the machine.
QUICK = [HealthCheck.too_slow]
settings.register_profile("ragtasks", max_examples=50, deadline=None, derandomize=True, suppress_health_check=QUICK)
settings.load_profile("ragtasks")

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Folder with the official files of benchmarks."""
MTRAG_CHECKOUT = Path(
    os.environ.get("RAGTASKS_MTRAG_CHECKOUT") or Path(__file__).resolve().parents[2] / "official" / "mt-rag-benchmark"
)
"""Checkout of IBM/mt-rag-benchmark at commit cc5b1d4, including scripts."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while libraries and tests are loaded: their million objects stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m MARKER`, import only files that contain the marker: importing all takes longer than many tests."""
    marker = config.option.markexpr
    if not marker.isidentifier() or not collection_path.name.startswith("test_"):
        return None
    named = re.search(rf"\b({marker}|KILLS)\b", collection_path.read_text(encoding="utf-8"))
    return None if named else True


@pytest.fixture(scope="session", autouse=True)
def _the_command_line_is_built_once() -> Iterator[None]:
    """Build the commands once: Typer rebuilds all options at every call, which takes longer than most commands."""
    built = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", built)
        patch.setattr("typer.testing._get_command", built)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """Skip `fsync`, which takes milliseconds for each of thousands of files. It matters only if the machine stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _the_machine_is_not_described() -> Iterator[None]:
    """Skip the description of the machine in child processes. `make run` in `.ci/run` and the wheel's check include
    it.
    """
    places = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        yield


@pytest.fixture(scope="session")
def mtrag_root() -> Path:
    """The real MTRAG checkout, or a skip with the expected path."""
    root = REAL_DATA / "mt-rag-benchmark"
    if not (root / "mtrag-human").is_dir():
        pytest.skip(f"no real MTRAG data at {root}")
    return root


@pytest.fixture(scope="session")
def mtrag_checkout() -> Path:
    """The official repository with its scripts, or a skip with the expected path."""
    if not (MTRAG_CHECKOUT / "scripts" / "evaluation" / "judge_utils.py").is_file():
        pytest.skip(f"no checkout of IBM/mt-rag-benchmark at {MTRAG_CHECKOUT}: name one with RAGTASKS_MTRAG_CHECKOUT")
    return MTRAG_CHECKOUT


@pytest.fixture(scope="session")
def multihop_checkout() -> Path:
    """The official repository of MultiHop-RAG with its scripts, or a skip with the expected path."""
    root = MTRAG_CHECKOUT.parent / "MultiHop-RAG"
    if not (root / "qa_llama.py").is_file():
        pytest.skip(f"no checkout of yixuantt/MultiHop-RAG at {root}")
    return root


@pytest.fixture(scope="session")
def ragnarok_checkout() -> Path:
    """The repository of TREC RAG's baselines, or a skip with the expected path."""
    root = MTRAG_CHECKOUT.parent / "ragnarok"
    if not (root / "src" / "ragnarok").is_dir():
        pytest.skip(f"no checkout of castorini/ragnarok at {root}")
    return root


@pytest.fixture(scope="session")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with output of the harness for two models, in `oracle` and `refuse`."""
    from tests._evaluations import evaluate_sample

    return made_once(tmp_path_factory, "evaluations", evaluate_sample)


@pytest.fixture(scope="session")
def harness_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with output of the harness for its own kind of tasks, by two models, in `weak` and `strong`."""
    from tests._harness_tasks import evaluate_harness_tasks

    return made_once(tmp_path_factory, "harness-results", evaluate_harness_tasks)
