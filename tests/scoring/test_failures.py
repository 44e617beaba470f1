"""A failure in a part of the scoring is recorded and masked, and the other parts continue."""

from __future__ import annotations

import pytest
import tantivy

from ragtasks.errors import CacheError
from ragtasks.scoring import CheckedAnswers, record_checked, record_failure, take_checked, take_failures
from ragtasks.scoring._failures import survive


@pytest.fixture(autouse=True)
def _nothing_is_left() -> None:
    take_failures()
    take_checked()


def test_failures_are_returned_once_in_order(caplog: pytest.LogCaptureFixture) -> None:
    record_failure("one")
    record_failure("two")
    assert take_failures() == ["one", "two"]
    assert take_failures() == []
    assert [item.message for item in caplog.records if item.levelname == "ERROR"] == ["one", "two"]


def test_checks_are_returned_once_with_their_limits() -> None:
    checked = CheckedAnswers("mtrag", ())
    record_checked(checked, 0.2)
    assert take_checked() == [(checked, 0.2)]
    assert take_checked() == []


def test_a_successful_part_returns_its_result() -> None:
    assert survive("search", lambda: "found", str.upper) == "found"
    assert take_failures() == []


def test_our_error_is_recorded_by_its_message_and_any_other_by_type_with_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def ours() -> str:
        raise CacheError("the disk is full")

    def foreign() -> str:
        raise TypeError("no number")

    assert survive("judging", ours, str.upper) == "JUDGING FAILED: THE DISK IS FULL"
    assert "Traceback" not in caplog.text
    assert survive("judging", foreign, str) == "judging failed: TypeError: no number"
    assert take_failures() == ["judging failed: the disk is full", "judging failed: TypeError: no number"]
    assert "in foreign" in caplog.text, "the traceback says where"
    assert not any(item.message.endswith("\n") for item in caplog.records)


def test_a_panic_in_rust_is_survived_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    index = tantivy.Index(tantivy.SchemaBuilder().build())

    def work() -> str:
        index.searcher().search(tantivy.Query.all_query(), limit=0)
        return "found"

    assert survive("search", work, lambda reason: reason).startswith("search failed: PanicException: ")
    assert len(take_failures()) == 1
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("order", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_raised(order: type[BaseException]) -> None:
    def work() -> str:
        raise order

    with pytest.raises(order):
        survive("judging", work, str)
    assert take_failures() == []


def test_keys_are_masked_in_reason_log_and_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MILVUS_TOKEN", "token-4711")

    def work() -> str:
        raise TypeError("bad header: Bearer token-4711")

    assert survive("search", work, str) == "search failed: TypeError: bad header: Bearer ***"
    assert "4711" not in caplog.text + "".join(take_failures())
    assert "Bearer ***" in caplog.text
