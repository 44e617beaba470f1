"""Task + setting -> the flat dictionary that templates, models and logs see.

A doc holds plain lists, numbers and text only, so that it survives the harness's dataset, its JSON logs and its
process boundaries; what only one benchmark has is one JSON text, since a dataset has one type a field. `response_of`
turns a doc and an answer back into records for scoring.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.records import Answerability, Contexts, Message, Passage, Response, Role, Setting, Task

Doc = dict[str, Any]


def build_docs(
    benchmark: Benchmark, setting: Setting, domain: str | None, *, conversational: bool, contexts: Contexts
) -> list[Doc]:
    """Return the docs of one harness task, in the order of the benchmark.

    Args:
        benchmark: where the tasks come from.
        setting: decides which tasks take part: those that `contexts` covers.
        domain: short name of the corpus; None for all.
        conversational: whether conversational tasks take part.
        contexts: task id -> passages that the model is shown.
    """
    chosen = [
        task
        for task in benchmark.tasks
        if domain in {None, task.domain}
        and task.task_id in contexts.passages
        and (conversational or task.answerability is not Answerability.CONVERSATIONAL)
    ]
    return [build_doc(benchmark, task, setting, contexts.run, contexts.passages[task.task_id]) for task in chosen]


def build_doc(benchmark: Benchmark, task: Task, setting: Setting, run: str, passages: tuple[Passage, ...]) -> Doc:
    """Return the doc of one task with the passages that it is given."""
    return {
        "benchmark": benchmark.name,
        "is_sample": benchmark.is_sample,
        "task_id": task.task_id,
        "conversation_id": task.conversation_id,
        "turn": task.turn,
        "domain": task.domain,
        "setting": setting.value,
        "run": run,
        "answerability": task.answerability.value,
        "question_types": list(task.question_types),
        "multi_turn": task.multi_turn,
        "history": [{"role": message.role.value, "content": message.text} for message in task.messages[:-1]],
        "question": task.question,
        "passages": passage_rows(passages),
        "references": [passage.passage_id for passage in task.references],
        "target": task.target,
        "extra": json.dumps(dict(task.extra), ensure_ascii=False),
    }


def passage_rows(passages: Iterable[Passage]) -> list[dict[str, str]]:
    """Return passages as they stand in a doc."""
    return [{"passage_id": item.passage_id, "title": item.title, "text": item.text} for item in passages]


def response_of(doc: Mapping[str, Any], text: str) -> Response:
    """Return the response `text` to a doc as a record; the doc's `no_answer` says why there is none.

    Blanks at its ends are for those alone who show the answer as it came (`Response.verbatim`): no metric reads them.
    The reference passages of the record carry ids only: their text is not in the doc.
    """
    messages = tuple(Message(Role(item["role"]), item["content"]) for item in doc["history"])
    task = Task(
        task_id=doc["task_id"],
        conversation_id=doc["conversation_id"],
        turn=doc["turn"],
        domain=doc["domain"],
        messages=(*messages, Message(Role.USER, doc["question"])),
        target=doc["target"],
        answerability=Answerability(doc["answerability"]),
        question_types=tuple(doc["question_types"]),
        multi_turn=doc["multi_turn"],
        references=tuple(Passage(passage_id, "") for passage_id in doc["references"]),
        extra=json.loads(doc.get("extra", "{}")),  # answers that were saved before the field was there lack it
    )
    passages = tuple(Passage(item["passage_id"], item["text"], item["title"]) for item in doc["passages"])
    bare = text.strip()
    return Response(task, passages, bare, str(doc.get("no_answer") or ""), verbatim=None if bare == text else text)


__all__ = ["Doc", "build_doc", "build_docs", "passage_rows", "response_of"]
