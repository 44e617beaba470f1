"""The shape of a logged sample of our harness tasks: what is read of it has the type that its writer gives it.

Files that others wrote, or a program changed, hold labels that are numbers, passages that are texts and lists that are
objects. They are refused by line here, so that no reader behind it meets them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.errors import misfits

_TASK_NAME = re.compile(r"[^/\\\0\n]{1,180}")


class _Part(BaseModel):
    """A part of what is logged; what else stands there is left alone."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class _Passage(_Part):
    passage_id: str
    title: str = ""
    text: str = ""


class _Message(_Part):
    role: str
    content: str


class _Verdict(_Part):
    rubric: str
    judge: str
    value: float | None
    outcome: str | None = None


class _Notes(_Part):
    idk: str | None = None
    unscored: dict[str, str] = {}
    implausible: dict[str, str] | None = None
    verdicts: list[_Verdict] = []


class _Doc(_Part):
    task_id: str
    conversation_id: str
    turn: int
    domain: str
    setting: str
    answerability: str
    question_types: list[str]
    multi_turn: str
    passages: list[_Passage]
    references: list[str]
    history: list[_Message] = []
    question: str = ""
    target: str = ""
    benchmark: str | None = None
    is_sample: bool | None = None
    extra: str = "{}"
    scoring: _Notes = _Notes()


class _Sample(_Part):
    doc: _Doc
    metrics: list[str] = []
    filtered_resps: list[str] = []


class _Scoring(_Part):
    encoder: str = ""
    idk_detector: str = ""
    judges: str | None = None
    judge_prompts: str | None = None


class _Configuration(_Part):
    run: str = "official"


class _Origin(_Part):
    benchmark: str | None = None
    suite: str = ""
    revision: str | None = None
    setting_tasks: dict[str, dict[str, int]] = {}
    configuration: _Configuration = _Configuration()
    scoring: _Scoring = _Scoring()


def require_sample(row: Mapping[str, Any]) -> None:
    """Refuse a row that is no logged sample of our harness tasks.

    Raises:
        ValueError: what does not fit, without the values.
    """
    _require(_Sample, row)


def require_origin(task: str, said: object) -> None:
    """Refuse what a results file says of the origin of a harness task's scores, or the name of the task.

    Raises:
        ValueError: what does not fit, without the values; or a name that no file of samples can bear.
    """
    if not _TASK_NAME.fullmatch(task):
        raise ValueError(f"harness task {task[:80]!r}: no name of a task, as its samples are a file of that name")
    _require(_Origin, said)


def _require(model: type[_Part], value: object) -> None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        raise ValueError("; ".join(misfits(error))) from error


__all__ = ["require_origin", "require_sample"]
