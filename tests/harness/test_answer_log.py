from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import CacheError
from ragtasks.harness.answering import AnswerLog

ARGUMENTS = {"model": "m", "base_url": "http://user:secret@host:1/v1?key=secret", "auth_token": "secret", "timeout": 5}
ASKED = ("generate_until", ("prompt", {"temperature": 0.0}))


OPENED: list[AnswerLog] = []


def log_of(folder: Path, model_type: str = "local", **changed: Any) -> AnswerLog:
    OPENED.append(AnswerLog(folder / "log.sqlite", model_type, {**ARGUMENTS, **changed}))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def closed_logs() -> Iterator[None]:
    """Close the logs after each test, not before: their answers must be readable at once."""
    yield
    while OPENED:
        OPENED.pop().close()


def test_an_answer_is_readable_by_another_process_immediately(tmp_path: Path) -> None:
    log_of(tmp_path).record(ASKED, "answer")  # not closed
    assert log_of(tmp_path).look_up([ASKED]) == ["answer"]


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "other"},
        {"model": "n"},
        {"base_url": "http://host:2/v1"},
        {"base_url": "http://host:1/v2"},
        {"max_gen_toks": 7},
    ],
)
def test_changed_settings_request_answers_again(tmp_path: Path, changed: dict[str, Any]) -> None:
    log_of(tmp_path).record(ASKED, "answer")
    assert log_of(tmp_path, **changed).look_up([ASKED]) == [None]


@pytest.mark.parametrize(
    "changed",
    [
        {"auth_token": "other", "header": {"Authorization": "other"}},
        {"timeout": 9, "num_concurrent": 8, "max_retries": 1, "batch_size": 4},
        {"base_url": "http://host:1/v1"},
    ],
)
def test_secrets_and_transport_settings_keep_answers(tmp_path: Path, changed: dict[str, Any]) -> None:
    log = log_of(tmp_path)
    log.record(ASKED, "answer")
    log.close()
    assert log_of(tmp_path, **changed).look_up([ASKED]) == ["answer"]
    assert b"secret" not in (tmp_path / "log.sqlite").read_bytes()


@pytest.mark.parametrize(
    "other_request",
    [
        ("generate_until", ("Prompt", {"temperature": 0.0})),
        ("generate_until", ("prompt", {"temperature": 0.5})),
        ("loglikelihood", ("prompt", {"temperature": 0.0})),
    ],
)
def test_another_prompt_option_or_method_is_another_request(tmp_path: Path, other_request: Any) -> None:
    log_of(tmp_path).record(ASKED, "answer")
    assert log_of(tmp_path).look_up([other_request, ASKED]) == [None, "answer"]


def test_other_weights_in_the_same_folder_are_another_model(tmp_path: Path) -> None:
    weights = tmp_path / "model"
    weights.mkdir()
    (weights / "config.json").write_bytes(b"{}")  # marks the folder as a model
    (weights / "model.safetensors").write_bytes(b"one")
    log_of(tmp_path, pretrained=str(weights)).record(ASKED, "answer")
    assert log_of(tmp_path, pretrained=str(weights)).look_up([ASKED]) == ["answer"]
    (weights / "model.safetensors").write_bytes(b"other")
    assert log_of(tmp_path, pretrained=str(weights)).look_up([ASKED]) == [None]


def test_samples_of_one_prompt_are_separate_answers(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert log.look_up([ASKED] * 3) == [None] * 3
    log.record(ASKED, "first")
    log.record(ASKED, "second")
    resumed = log_of(tmp_path)
    assert resumed.look_up([ASKED] * 3) == ["first", "second", None]
    resumed.record(ASKED, "third")
    assert log_of(tmp_path).look_up([ASKED] * 3) == ["first", "second", "third"]


def test_half_of_a_surrogate_pair_is_kept(tmp_path: Path) -> None:
    request = ("generate_until", ("what \ud83d", {}))
    log_of(tmp_path).record(request, "three days \ud83d")
    assert log_of(tmp_path).look_up([request]) == ["three days \ud83d"]


def test_likelihoods_are_restored_exactly(tmp_path: Path) -> None:
    request = ("loglikelihood", ("context", " continuation"))
    log_of(tmp_path).record(request, (-1.25, True))
    assert log_of(tmp_path).look_up([request]) == [[-1.25, True]]


def test_finishing_an_evaluation_keeps_answers_of_others(tmp_path: Path) -> None:
    mine, other = log_of(tmp_path), log_of(tmp_path, model="n")
    mine.look_up([ASKED])
    mine.record(ASKED, "mine")
    other.look_up([ASKED])
    other.record(ASKED, "theirs")
    mine.finish()
    assert log_of(tmp_path).look_up([ASKED]) == [None]
    assert log_of(tmp_path, model="n").look_up([ASKED]) == ["theirs"]
    other.finish()
    assert not list(tmp_path.iterdir())


def test_a_permanent_log_is_kept(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "log.sqlite", "local", ARGUMENTS, is_lasting=True)
    log.look_up([ASKED])
    log.record(ASKED, "answer")
    log.finish()
    assert log_of(tmp_path).look_up([ASKED]) == ["answer"]


def test_a_foreign_file_is_rejected_before_the_first_request(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_text("something else, long enough to be no empty database" * 20)
    with pytest.raises(CacheError, match=r"log\.sqlite"):
        log_of(tmp_path)


def test_a_log_that_fails_midway_loses_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(tmp_path)
    log.look_up([ASKED])
    (tmp_path / "log.sqlite").unlink()
    (tmp_path / "log.sqlite").mkdir()
    log.record(ASKED, "answer")
    log.record(ASKED, "answer")
    assert caplog.text.count("are kept in memory only") == 1
