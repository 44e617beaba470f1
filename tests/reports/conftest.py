"""The evaluations that the report tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports._evaluations import evaluate_sample


@pytest.fixture(scope="session")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the harness's output for two models, in `oracle` and `refuse`."""
    return evaluate_sample(tmp_path_factory.mktemp("evaluations"))
