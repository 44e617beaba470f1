"""The files of exact wording: every entry has a test, and a message with another wording fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from tests._messages import NAME, TESTS, raises, same_message, without_test


@pytest.mark.parametrize("path", sorted(TESTS.rglob(NAME)), ids=lambda path: str(path.relative_to(TESTS)))
def test_every_message_has_its_test(path: Path) -> None:
    assert without_test(path) == []


def test_another_wording_is_an_error_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_message(f"no file {tmp_path / 'a.json'}")
    monkeypatch.setattr("tests._messages._rewrites", False)
    with pytest.raises(AssertionError, match="--rewrite-messages tests/test_messages"):
        same_message("another message")
    with pytest.raises(AssertionError, match="no entry"), raises(ConfigurationError):
        raise ConfigurationError("a third message, which has no entry")
