"""The docs of one harness task, as the harness's kind of dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value
from datasets import Sequence as ListOf

from ragtasks.benchmarks import Benchmark, build_docs, contexts_for
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.records import Setting

_TEXT = Value("string")
FEATURES = Features(
    {
        "benchmark": _TEXT,
        "is_sample": Value("bool"),
        "task_id": _TEXT,
        "conversation_id": _TEXT,
        "turn": Value("int64"),
        "domain": _TEXT,
        "setting": _TEXT,
        "run": _TEXT,
        "answerability": _TEXT,
        "question_types": ListOf(_TEXT),
        "multi_turn": _TEXT,
        "history": [{"role": _TEXT, "content": _TEXT}],
        "question": _TEXT,
        "passages": [{"passage_id": _TEXT, "title": _TEXT, "text": _TEXT}],
        "references": ListOf(_TEXT),
        "target": _TEXT,
        "extra": _TEXT,
    }
)
"""Types of a doc's fields, stated because a domain whose first tasks have no passages would be typed wrongly."""


def task_dataset(benchmark: Benchmark, options: dict[str, Any], config: EvaluationConfig, store: Path) -> Dataset:
    """Return the docs of one harness task as the harness wants them.

    Args:
        benchmark: where the tasks come from.
        options: `setting` of the task's YAML, and `domain` where the task has one only.
        config: names the run, and decides whether conversational tasks take part.
        store: folder of the stored runs.

    Raises:
        BenchmarkFileError: the published passages are missing or broken.
        CacheError: the run is missing, corrupt, or was made for other data.
        ConfigurationError: no task is left.
    """
    setting = Setting(options["setting"])
    contexts = contexts_for(benchmark, setting, config.run, store)
    domain = options.get("domain")
    docs = build_docs(benchmark, setting, domain, conversational=config.conversational, contexts=contexts)
    if not docs:
        where = f"domain {domain!r}, " if domain else ""
        raise ConfigurationError(f"{benchmark.label} has no task in {where}setting {setting.value}")
    return Dataset.from_list(docs, features=FEATURES)


__all__ = ["FEATURES", "task_dataset"]
