"""Pools for judges: questions with the top passages of several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, Run, has_candidates, json_lines, retrieved_topic
from ragtasks.records import Answerability, Message, Passage, Role, Task
from retrieval_cache.corpora.passages import with_text
from retrieval_cache.evidence import corpus_passages

_MAX_LISTED = 5


def pairs_of_benchmark(benchmark: Benchmark, runs: Sequence[Run], depth: int) -> list[tuple[Task, Passage]]:
    """Return each task with the passages ranked among the first `depth` by any run, by task, then in rank order.

    The benchmark's corpora are read once for the texts.
    """
    ranked = {
        task.task_id: list(
            dict.fromkeys(passage.passage_id for run in runs for passage in run.get(task.task_id, ())[:depth])
        )
        for task in benchmark.tasks
    }
    wanted = {passage_id for ids in ranked.values() for passage_id in ids}
    domains = retrieval_side(benchmark.name).domains_of(benchmark.tasks)
    texts = {
        passage.passage_id: passage for passage in corpus_passages(benchmark, domains) if passage.passage_id in wanted
    }
    if missing := sorted(wanted - texts.keys()):
        raise BenchmarkFileError(
            "passages to judge",
            where=benchmark.label,
            expected="the text of every passage that the runs rank",
            found=f"none of {len(missing)}, such as {', '.join(missing[:_MAX_LISTED])}",
            next_step="give the runs that were made over these corpora",
        )
    return [(task, texts[passage_id]) for task in benchmark.tasks for passage_id in ranked[task.task_id]]


def pairs_of_files(files: Sequence[Path], depth: int) -> list[tuple[Task, Passage]]:
    """Return each topic of retrieval result files with its first `depth` candidates. No benchmark is required."""
    tasks: dict[str, Task] = {}
    topics: dict[str, dict[str, Passage]] = {}
    for file in files:
        for task, passages in _topics(file, depth):
            first = tasks.setdefault(task.task_id, task)
            for passage in passages:
                topics.setdefault(first.task_id, {}).setdefault(passage.passage_id, passage)
    return [(tasks[topic_id], passage) for topic_id, by_passage in topics.items() for passage in by_passage.values()]


def _topics(file: Path, depth: int) -> Iterator[tuple[Task, list[Passage]]]:
    problems = Problems(file, "retrieval results", "fix them, or name the --benchmark of a run without texts")
    for number, row in json_lines(problems):
        try:
            topic = retrieved_topic(row)
        except ValueError as error:
            problems.add(number, "query and candidates", str(error) if has_candidates(row) else list(row))
            continue
        if not topic.text.strip():
            problems.add(number, "`query` with a `text`", "none", topic.topic_id)
        rows: list[Mapping[str, object]] = [
            {**passage.doc, "docid": passage.passage_id} for passage in topic.candidates[:depth]
        ]
        passages = [with_text(passage) for passage in rows]
        for wrong in (passage for passage in passages if isinstance(passage, str)):
            problems.add(number, "a text of every candidate", wrong, topic.topic_id)
        task = Task(
            task_id=topic.topic_id,
            conversation_id=topic.topic_id,
            turn=1,
            domain="",
            messages=(Message(Role.USER, topic.text),),
            target="",
            answerability=Answerability.ANSWERABLE,
        )
        yield task, [passage for passage in passages if isinstance(passage, Passage)]
    problems.raise_if_any()
