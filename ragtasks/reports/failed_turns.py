"""Failed turns as a benchmark of the user's own, so that a later gate tests them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ragtasks.config import FailedTurn
from ragtasks.errors import ConfigurationError
from ragtasks.files import Problems, json_lines, write_atomically, written_lines
from ragtasks.records import Passage, Response, Role, Task
from ragtasks.reports.tables import failed_turn_definition, has_failed
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import grouped

Turn = tuple[str, str, str]
"""(model, setting, task id), the subject of a note on the page."""
_TURN = ("model", "setting", "task_id")


def write_failed_turns(
    evaluations: Sequence[Evaluation], folder: Path, failed_turn: FailedTurn | None = None, notes: Path | None = None
) -> list[str]:
    """Write failed turns as a `custom` benchmark, and return a summary.

    A conversation ends with its last selected turn. Earlier turns are its history and not tasks. The passages of each
    prompt become `retrieved.trec`.

    Args:
        evaluations: the evaluations with the turns.
        folder: the folder to write, which must be empty or missing.
        failed_turn: definition of a failed turn. None: that of the results, or no failed turn if there are notes.
        notes: notes exported from the page, whose flagged turns are selected too.
    """
    is_defined = failed_turn is not None or notes is None
    definition = failed_turn_definition(evaluations, failed_turn) if is_defined else None
    if folder.exists() and any(folder.iterdir()):
        raise ConfigurationError(f"{folder} is not empty. Next step: name a new folder with --output")
    flagged = _flagged(notes) if notes else frozenset()
    chosen = list(_chosen(evaluations, definition, flagged))
    if not chosen:
        failure = f"{definition} or " if definition is not None else ""
        raise ConfigurationError(f"no turn has {failure}a flag; {_available_kinds(evaluations)}")
    return _write(chosen, folder)


def _available_kinds(evaluations: Sequence[Evaluation]) -> str:
    counts = Counter(
        row.turn_error_kind for evaluation in evaluations for row in evaluation.rows if row.turn_error_kind
    )
    listed = ", ".join(f"{kind} ({count})" for kind, count in counts.most_common()) or "no failed turn"
    return f"the results contain {listed}. Next step: name one with --kind, or flag turns on the page"


def _flagged(notes: Path) -> frozenset[Turn]:
    problems = Problems(notes, "notes", "export them again from the page")
    flagged = set()
    for number, row in json_lines(problems):
        if isinstance(row.get("flag"), bool) and all(isinstance(row.get(key), str) for key in _TURN):
            flagged |= {(row["model"], row["setting"], row["task_id"])} if row["flag"] else set()
        else:
            problems.add(number, "model, setting, task_id and flag", row)
    problems.raise_if_any()
    return frozenset(flagged)


def _chosen(
    evaluations: Sequence[Evaluation], definition: FailedTurn | None, flagged: Collection[Turn]
) -> Iterator[ScoredAnswer]:
    """Yield the selected rows, each task once: its first selected answer."""
    chosen_ids = set()
    for evaluation in evaluations:
        for row in evaluation.rows:
            if len(row.task.messages) != 2 * row.task.turn - 1:
                continue  # a history with an unanswered question is not a conversation in this format
            is_failed = definition is not None and has_failed(row, definition)
            is_flagged = (evaluation.model, row.setting, row.task.task_id) in flagged
            if (is_failed or is_flagged) and row.task.task_id not in chosen_ids:
                chosen_ids.add(row.task.task_id)
                yield row


def _write(chosen: Sequence[ScoredAnswer], folder: Path) -> list[str]:
    conversations = grouped(chosen, lambda row: row.task.conversation_id)
    shown = {passage.passage_id: (row.task.domain, passage) for row in chosen for passage in _passages(row.response)}
    missing = sum(passage.passage_id not in shown for row in chosen for passage in row.task.references)
    folder.mkdir(parents=True, exist_ok=True)
    turns = written_lines(_conversation(rows, shown) for rows in conversations.values())
    write_atomically(folder / "conversations.jsonl", turns)
    passages = (
        {"_id": passage_id, "text": passage.text, "title": passage.title, "domain": domain}
        for passage_id, (domain, passage) in shown.items()
    )
    write_atomically(folder / "passages.jsonl", written_lines(passages))
    run = [
        f"{row.task.task_id} Q0 {passage.passage_id} {rank} {1 / rank:.6f} shown\n"
        for row in chosen
        for rank, passage in enumerate(row.response.passages, start=1)
    ]
    write_atomically(folder / "retrieved.trec", "".join(run).encode())
    lines = [f"{len(chosen)} turns of {len(conversations)} conversations, {len(shown)} passages: {folder}"]
    return lines + ([f"{missing} reference passages have no text in these results and are left out"] if missing else [])


def _passages(response: Response) -> Iterator[Passage]:
    yield from (passage for passage in (*response.passages, *response.task.references) if passage.text.strip())


def _conversation(rows: Sequence[ScoredAnswer], passage_ids: Collection[str]) -> dict[str, Any]:
    by_turn = {row.task.turn: row.task for row in rows}
    last = max(by_turn)
    messages = by_turn[last].messages
    questions, replies = (
        [message.text for message in messages if message.role is role] for role in (Role.USER, Role.ASSISTANT)
    )
    turns = [
        _turn(by_turn[number], passage_ids)
        if number in by_turn
        else {"question": question, "answer": replies[number - 1], "scored": False}
        for number, question in enumerate(questions, start=1)
    ]
    return {"conversation_id": rows[0].task.conversation_id, "domain": rows[0].task.domain, "turns": turns}


def _turn(task: Task, passage_ids: Collection[str]) -> dict[str, Any]:
    return {
        "question": task.question,
        "answer": task.target,
        "answerability": task.answerability.value,
        "references": [passage.passage_id for passage in task.references if passage.passage_id in passage_ids],
        "question_types": list(task.question_types),
        "multi_turn": task.multi_turn,
    }
