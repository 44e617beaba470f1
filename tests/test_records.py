"""Records are frozen, comparable and hashable, and their labels are those of the files."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from ragtasks import records
from ragtasks.records import Answerability, Contexts, IdkVerdict, Message, Passage, Role, Score, Setting, Task

TASK = Task(
    task_id="c<::>2",
    conversation_id="c",
    turn=2,
    domain="govt",
    messages=(Message(Role.USER, "first"), Message(Role.ASSISTANT, "reply"), Message(Role.USER, "last")),
    target="answer",
    answerability=Answerability.PARTIAL,
    question_types=("Factoid",),
    multi_turn="Follow-up",
    references=(Passage("p", "text"),),
)
DATACLASSES = [found for _, found in inspect.getmembers(records, dataclasses.is_dataclass)]


def test_labels_are_spelt_as_in_the_files() -> None:
    assert [setting.value for setting in Setting] == ["reference", "reference_rag", "full_rag", "agentic"]
    assert all(label.value == label.name for label in Answerability)
    assert [verdict.value for verdict in IdkVerdict] == ["yes", "partial", "no"]
    assert [role.value for role in Role] == ["user", "assistant"]


@pytest.mark.parametrize("record", DATACLASSES, ids=lambda record: record.__name__)
def test_every_record_is_frozen_and_slotted(record: Any) -> None:
    assert record.__dataclass_params__.frozen
    assert "__slots__" in vars(record)


def test_equal_records_have_one_hash() -> None:
    assert {TASK: 1}[dataclasses.replace(TASK)] == 1
    assert dataclasses.replace(TASK, turn=3) != TASK


def test_the_question_is_the_last_message() -> None:
    assert TASK.question == "last"


def test_unscored_is_not_zero() -> None:
    assert Score(None, "why") != Score(0.0)
    assert Score(0.5).reason == ""


def test_contexts_do_not_share_their_default() -> None:
    assert Contexts("a", Setting.FULL_RAG).passages is not Contexts("b", Setting.FULL_RAG).passages
