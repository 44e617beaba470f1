"""Rewritten questions in the format of QReCC (Anantha et al. 2021): a JSON list of turns with their conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from ragtasks.benchmarks import Benchmark, Fields, Label, Text, rows_benchmark, typed_items, unique_rows
from ragtasks.benchmarks.custom import REWRITE
from ragtasks.files import Problems
from ragtasks.records import Answerability, Message, Role, Task, task_id

_STEP = (
    "fix these rows; the form is that of qrecc_train.json: Conversation_no, Turn_no, Question, Rewrite, and Context, a "
    "list of texts, question and reply in turn"
)


class _QreccTurn(Fields):
    conversation: Label = Field(alias="Conversation_no")
    number: Label = Field(alias="Turn_no")
    context: list[str] = Field(alias="Context")
    question: Text = Field(alias="Question")
    rewrite: Text = Field(alias="Rewrite")
    answer: Any = Field(None, alias="Answer")

    def task(self, row: int) -> Task:
        """Return the question as a task; without a turn number its id has the row number."""
        is_numbered = self.number.isdecimal()
        roles = (Role.USER, Role.ASSISTANT)
        history = [Message(roles[position % 2], text) for position, text in enumerate(self.context)]
        return Task(
            task_id=task_id(self.conversation, int(self.number)) if is_numbered else f"{self.conversation} row {row}",
            conversation_id=self.conversation,
            turn=len(history) // 2 + 1,
            domain="qrecc",
            messages=(*history, Message(Role.USER, self.question)),
            target=self.answer if isinstance(self.answer, str) else "",
            answerability=Answerability.ANSWERABLE,
            multi_turn="Follow-up" if history else "N/A",
            extra={REWRITE: " ".join(self.rewrite.split())},
        )


def read_qrecc(file: Path) -> Benchmark:
    """Return the questions of a file in QReCC's format with their rewrites; errors name the item, from 1."""
    problems = Problems(file, "rewritten questions", _STEP)
    tasks = [row.task(number) for number, row in typed_items(problems, _QreccTurn)]
    if not tasks and not len(problems):
        problems.add(0, "a JSON list of turns", "an empty list")
    unique_rows(problems, ((0, task.task_id, task) for task in tasks), "turn")
    problems.raise_if_any()
    return rows_benchmark(tasks)
