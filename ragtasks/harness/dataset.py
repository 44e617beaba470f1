"""The docs of one harness task, as the harness's kind of dataset."""

from __future__ import annotations

from typing import Any

from datasets import Dataset, Features, Sequence, Value

from ragtasks.benchmarks.benchmark import Benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.docs import build_docs
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
        "question_types": Sequence(_TEXT),
        "multi_turn": _TEXT,
        "history": [{"role": _TEXT, "content": _TEXT}],
        "question": _TEXT,
        "passages": [{"passage_id": _TEXT, "title": _TEXT, "text": _TEXT}],
        "references": Sequence(_TEXT),
        "target": _TEXT,
    }
)
"""Types of a doc's fields, stated because a domain whose first tasks have no passages would be typed wrongly."""


def task_dataset(benchmark: Benchmark, options: dict[str, Any], config: EvaluationConfig) -> Dataset:
    """Return the docs of one harness task as the harness wants them.

    Args:
        benchmark: where the tasks come from.
        options: `setting` and `domain` of the task's YAML.
        config: decides whether conversational tasks take part.

    Raises:
        ConfigurationError: no task is left.
    """
    setting = Setting(options["setting"])
    contexts = benchmark.read_contexts(setting)
    docs = build_docs(benchmark, setting, options["domain"], conversational=config.conversational, contexts=contexts)
    if not docs:
        raise ConfigurationError(
            f"{benchmark.label} has no task in domain {options['domain']!r}, setting {setting.value}"
        )
    return Dataset.from_list(docs, features=FEATURES)


__all__ = ["FEATURES", "task_dataset"]
