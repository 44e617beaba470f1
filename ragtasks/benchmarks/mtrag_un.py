"""MTRAG-UN: 507 published tasks on MTRAG's four corpora (Rosenthal et al. 2026), one conversation each.

Its questions are those that MTRAG has few of: unanswerable, underspecified, dependent on the conversation. The file
has MTRAG's rows with the key `answerability` in lower case and short collection names. Only the reference setting is
published; the paper's two further domains are not.

The file leaks: an unanswerable task has no passages, an answerable or partial one always has some.
"""

from __future__ import annotations

import functools
from pathlib import Path

from ragtasks.benchmarks._mtrag_rows import DOMAINS, Counts, facts_of, read_tasks
from ragtasks.benchmarks.benchmark import Benchmark
from ragtasks.benchmarks.mtrag_source import MTRAG_UN_SOURCE
from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.records import Contexts, Setting, Task

SOURCE = MTRAG_UN_SOURCE
"""The official files and the commit that they are pinned to."""

OFFICIAL_COUNTS = Counts(
    tasks=507,
    by_domain={"clapnq": 142, "fiqa": 77, "govt": 157, "cloud": 131},
    by_answerability={"ANSWERABLE": 285, "UNANSWERABLE": 97, "UNDERSPECIFIED": 78, "PARTIAL": 47},
)
"""Counted in the official file; the paper's 666 tasks include two domains that are not published."""

_TASK_FILE = "mtragun-human/generation_tasks/reference.jsonl"


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample).

    Raises:
        BenchmarkFileError: the file is missing, broken, or has other counts than it should.
    """
    is_sample, revision, counts = facts_of(root, SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILE, "mtrag_un", counts)
    read_contexts = functools.partial(_read_contexts, tasks)
    return Benchmark("mtrag_un", root, is_sample, revision, "answerability", tasks, read_contexts)


def _read_contexts(tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    """Return the reference passages of every task; an unanswerable one has none.

    Raises:
        ConfigurationError: a setting with retrieved passages, of which none are published.
    """
    if setting is Setting.REFERENCE:
        return Contexts("official", setting, {task.task_id: task.references for task in tasks})
    message = clear_error(
        "passages of MTRAG-UN",
        where=f"setting {setting.value}",
        expected=f"setting {Setting.REFERENCE.value}, the only one with published passages",
        found=f"setting {setting.value}",
        next_step="take mtrag_un_reference",
    )
    raise ConfigurationError(message)


__all__ = ["DOMAINS", "OFFICIAL_COUNTS", "SOURCE", "load"]
