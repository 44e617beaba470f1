"""Work in a separate process with limits."""

from __future__ import annotations

import pytest

from ragtasks.files import BoundedProcess


@pytest.mark.parametrize("worker", ["ragtasks.nowhere:reply", "ragtasks.files:nothing"])
def test_a_worker_that_cannot_be_imported_is_not_a_limit_error(worker: str) -> None:
    process = BoundedProcess(worker, seconds=1, most_bytes=1 << 30)
    with pytest.raises(ImportError, match=worker):
        process.ask({})
