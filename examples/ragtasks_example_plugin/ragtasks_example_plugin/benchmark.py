"""A benchmark: the source of its files, and their loader. Its sample is part of the package."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, BenchmarkDefinition, RetrievalSide
from ragtasks.benchmarks.sources import Source
from ragtasks.files import Problems, json_lines
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, task_id

SAMPLE = Path(__file__).parent / "sample"
SOURCE = Source("harbour_faq", "harbour-faq", "questions.jsonl", "", "", "", files=())


def load(root: Path) -> Benchmark:
    """Return the benchmark in a folder.

    Raises:
        BenchmarkFileError: a file is missing, or not JSON lines.
    """
    passages = {row["_id"]: Passage(row["_id"], row["text"], row["title"]) for row in _rows(root / "passages.jsonl")}
    tasks = tuple(_task(row, passages) for row in _rows(root / "questions.jsonl"))
    return Benchmark(
        "harbour_faq", root, root == SAMPLE, "1", "answerability", tasks, partial(_contexts, tasks), suite="keywords"
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    problems = Problems(path, "harbour file", "write it as the sample is")
    rows = [row for _, row in json_lines(problems)]
    problems.raise_if_any()
    return rows


def _task(row: dict[str, Any], passages: dict[str, Passage]) -> Task:
    return Task(
        task_id=task_id(row["_id"], 1),
        conversation_id=row["_id"],
        turn=1,
        domain="harbour",
        messages=(Message(Role.USER, row["question"]),),
        target=row["answer"],
        answerability=Answerability.ANSWERABLE,
        question_types=(),
        multi_turn="N/A",
        references=(passages[row["passage"]],),
        extra={"keywords": row["keywords"]},
    )


def _contexts(tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    return Contexts("official", setting, {task.task_id: task.references for task in tasks})


def _corpus_file(root: Path, domain: str) -> Path:
    return root / "passages.jsonl"


def _qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in load(root).tasks for passage in task.references)


DEFINITION = BenchmarkDefinition(SOURCE, load, RetrievalSide(("harbour",), _corpus_file, _qrels), SAMPLE)
