"""Allowed and refused skips in CI, on small test files."""

from __future__ import annotations

import pytest

from tests import _skips
from tests.conftest import REAL_DATA

CALL = "import shutil, pytest\ndef test_it():\n    if not shutil.which('no-such'): pytest.skip('no such program')"
PROGRAM = "import pytest\n@pytest.mark.skipif(True, reason='no browser')\ndef test_it(): pass"
LIBRARY = "import pytest\npytest.importorskip('no_such_library')"
DATA = f"import pytest\ndef test_it(): pytest.skip('no real data at {REAL_DATA}/x')"
KNOWN = "import pytest\n@pytest.mark.xfail(reason='known')\ndef test_it(): assert False"


@pytest.mark.parametrize(
    ("content", "in_ci", "elsewhere"),
    [
        (CALL, {"failed": 1}, {"skipped": 1}),
        (PROGRAM, {"errors": 1}, {"skipped": 1}),
        (LIBRARY, {"errors": 1}, {"skipped": 1}),
        (DATA, {"skipped": 1}, {"skipped": 1}),
        (KNOWN, {"xfailed": 1}, {"xfailed": 1}),
    ],
)
def test_in_ci_only_absent_data_may_skip(
    content: str,
    in_ci: dict[str, int],
    elsewhere: dict[str, int],
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytester.makepyfile(content)
    for value, expected in (("true", in_ci), ("", elsewhere)):
        monkeypatch.setenv("CI", value)
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:anyio", plugins=[_skips])
        assert done.parseoutcomes() == expected
