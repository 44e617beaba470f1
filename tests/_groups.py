"""Tests that start a Ray cluster run in one process, because memory suffices for one cluster: with `--dist loadgroup`.

The mark `xdist_group` of pytest-xdist 3.8 writes an attribute that pytest 9.2 no longer reads.
"""

from __future__ import annotations

from typing import Any

import pytest


def group_of(nodeid: str) -> str:
    """Return the group of a test: the tests of Ray share one group, every other test has its own."""
    return "ray" if "/test_ray_" in nodeid else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log) if config.getoption("dist") == "loadgroup" else None
