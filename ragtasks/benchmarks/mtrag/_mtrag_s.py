"""MTRAG-S: 200 synthetic conversations, 1,181 tasks, on MTRAG's four corpora (Katsis et al. 2025, section 9).

A model wrote questions and answers, and nobody checked the answers: they are no references. So a task's `target` is
the generator's own answer, and only scores that need no reference are reported (suite `mtrag_s`). Its passages are
those that the generator was shown; their ids join no corpus, so there is no retrieval setting.

The rows are MTRAG's with three differences, which end here: "Follow Up" with a blank, a passage that may stand
twice in one list, and question types that may be missing.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, reference_contexts
from ragtasks.benchmarks.mtrag._benchmark import MTRAG_SOURCE
from ragtasks.benchmarks.mtrag._rows import Context, Counts, TaskRow, each_once, edition_of, read_tasks
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import labels_of

_TASK_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"

SOURCE = replace(
    MTRAG_SOURCE,
    name="mtrag_s",
    marker="mtrag-synthetic",
    files=(SourceFile(_TASK_FILE, None, None, "tasks", "4ac9acc7080823cea27f4dbfca765f6a98ff7c83"),),
)
"""The official file: the same repository, commit and folder as MTRAG."""

OFFICIAL_COUNTS = Counts(tasks=1181, conversations=200)
"""Paper, Table 8; tasks by domain and by answerability are not published."""


def _once(contexts: object) -> object:
    if not isinstance(contexts, list):
        return contexts
    return [item for index, item in enumerate(contexts) if item not in contexts[:index]]


def _follow_up(value: object) -> tuple[str, ...]:
    return tuple("Follow-up" if label == "Follow Up" else label for label in labels_of(value))


class _SyntheticTask(TaskRow):
    """A line of MTRAG's format: a passage may come twice, id, text and all."""

    contexts: Annotated[list[Context], BeforeValidator(_once), AfterValidator(each_once)]
    multi_turn: Annotated[tuple[str, ...], BeforeValidator(_follow_up)] = Field((), alias="Multi-Turn")


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILE, "mtrag_s", counts, _SyntheticTask)
    read_contexts = functools.partial(reference_contexts, "mtrag_s", "mtrag_s", tasks)
    return Benchmark("mtrag_s", root, is_sample, revision, "Answerability", tasks, read_contexts, suite="mtrag_s")


DEFINITION = BenchmarkDefinition(SOURCE, load)
