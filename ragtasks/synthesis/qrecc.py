"""Rewritten questions in the format of QReCC (Anantha et al. 2021): a JSON list of turns with their conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, rows_benchmark
from ragtasks.benchmarks.custom import REWRITE as OWN_REWRITE
from ragtasks.files import Problems, parse_json
from ragtasks.records import Answerability, Message, Role, Task, task_id

_QRECC_KEYS = ("Conversation_no", "Turn_no", "Context", "Question", "Rewrite")
_QRECC_STEP = (
    "fix these rows; the form is that of qrecc_train.json: Conversation_no, Turn_no, Question, Rewrite, and Context, a "
    "list of texts, question and reply in turn"
)


def read_qrecc(file: Path) -> Benchmark:
    """Return the questions of a file in the form of QReCC, each with its rewrite; errors are named by row, from 1."""
    problems = Problems(file, "rewritten questions", _QRECC_STEP)
    try:
        rows = parse_json(file.read_bytes())
    except OSError as error:
        raise problems.unreadable(error) from error
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not rows:
        problems.add(0, "a JSON list of turns", type(rows).__name__ if rows is not None else "no JSON")
        problems.raise_if_any()
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, start=1):
        task = _qrecc_task(number, row, problems)
        if task is not None and tasks.setdefault(task.task_id, task) is not task:
            problems.add(number, "each turn once", f"{task.task_id} again")
    problems.raise_if_any()
    return rows_benchmark(tasks.values())


def _qrecc_task(number: int, row: Any, problems: Problems) -> Task | None:
    """Return the task of a row, None after noting what is wrong with it."""
    missing = [key for key in _QRECC_KEYS if not isinstance(row, dict) or key not in row]
    if missing:
        problems.add(number, f"an object with {', '.join(_QRECC_KEYS)}", f"no {', '.join(missing)}")
        return None
    context, question, rewrite = (row[key] for key in ("Context", "Question", "Rewrite"))
    texts = [*context, question, rewrite] if isinstance(context, list) else [None]
    if not all(isinstance(text, str) for text in texts) or not question.strip() or not rewrite.strip():
        problems.add(number, "texts as Question and Rewrite, and a list of texts as Context", texts)
        return None
    roles = (Role.USER if place % 2 == 0 else Role.ASSISTANT for place in range(len(context)))
    history = tuple(Message(role, text) for role, text in zip(roles, context, strict=True))
    name = str(row["Conversation_no"])
    answer = row.get("Answer")
    return Task(
        task_id=task_id(name, int(row["Turn_no"])) if str(row["Turn_no"]).isdecimal() else f"{name} row {number}",
        conversation_id=name,
        turn=len(history) // 2 + 1,
        domain="qrecc",
        messages=(*history, Message(Role.USER, question)),
        target=answer if isinstance(answer, str) else "",
        answerability=Answerability.ANSWERABLE,
        multi_turn="Follow-up" if history else "N/A",
        extra={OWN_REWRITE: " ".join(rewrite.split())},
    )
