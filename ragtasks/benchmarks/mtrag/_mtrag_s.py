"""MTRAG-S: 200 synthetic conversations, 1,181 tasks, on MTRAG's four corpora (Katsis et al. 2025, section 9).

A model wrote questions and answers, and the answers were not reviewed, so they are not references. A task's `target` is
the generator's own answer, and only reference-free scores are reported (suite `mtrag_s`). Its passages are the
generator's input. Their ids match no corpus, so there is no retrieval setting.

The rows have MTRAG's format with three differences, which this module normalizes: "Follow Up" with a blank, passages
that occur twice in one list, and missing question types.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, reference_contexts
from ragtasks.benchmarks.mtrag._benchmark import MTRAG_SOURCE
from ragtasks.benchmarks.mtrag._rows import Context, Counts, TaskRow, distinct_contexts, edition_of, read_tasks
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import labels_of

_TASK_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"

SOURCE = replace(
    MTRAG_SOURCE,
    name="mtrag_s",
    marker="mtrag-synthetic",
    files=(SourceFile(_TASK_FILE, None, None, "tasks", "4ac9acc7080823cea27f4dbfca765f6a98ff7c83"),),
)
"""The official file, from the same repository, commit and folder as MTRAG."""

OFFICIAL_COUNTS = Counts(tasks=1181, conversations=200)
"""Paper, Table 8. Tasks by domain and by answerability are not published."""


def _without_repeats(contexts: object) -> object:
    if not isinstance(contexts, list):
        return contexts
    return [context for index, context in enumerate(contexts) if context not in contexts[:index]]


def _follow_up(value: object) -> tuple[str, ...]:
    return tuple("Follow-up" if label == "Follow Up" else label for label in labels_of(value))


class _SyntheticTask(TaskRow):
    """A line in MTRAG's format, in which identical passages may be repeated."""

    contexts: Annotated[list[Context], BeforeValidator(_without_repeats), AfterValidator(distinct_contexts)]
    multi_turn: Annotated[tuple[str, ...], BeforeValidator(_follow_up)] = Field((), alias="Multi-Turn")


def load(root: Path) -> Benchmark:
    """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILE, "mtrag_s", counts, _SyntheticTask)
    read_contexts = functools.partial(reference_contexts, "mtrag_s", "mtrag_s", tasks)
    return Benchmark("mtrag_s", root, is_sample, revision, "Answerability", tasks, read_contexts, suite="mtrag_s")


DEFINITION = BenchmarkDefinition(SOURCE, load)
