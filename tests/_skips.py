"""In CI a test may only be skipped for missing real data or official checkouts. A missing program is an error."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.conftest import MTRAG_CHECKOUT, REAL_DATA


def refuse_skip(report: Any) -> None:
    """Turn a skip for any other reason into a failure."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("CI") != "true":
        return
    *_, reason = report.longrepr
    if not any(str(place) in reason for place in (REAL_DATA, MTRAG_CHECKOUT.parent)):
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}\nIn CI only absent data under {REAL_DATA} may skip: run `make system-packages` first"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    refuse_skip(report)
    return report
