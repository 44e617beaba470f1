"""Multi-turn retrieval-augmented generation benchmarks as tasks of lm-evaluation-harness.

Importing this package loads no model, sends no request and configures no logging. The names in `__all__` are imported
on first use. The harness finds the tasks through YAML files (`ragtasks tasks link`, or `--include_path "$(ragtasks
tasks path)"`).
"""

import importlib
from typing import TYPE_CHECKING

from ragtasks.errors import RagtasksError

__all__ = [
    "Decision",
    "Differences",
    "GroundedSentence",
    "Grounding",
    "LoadedBenchmark",
    "RagtasksError",
    "Results",
    "RetrievedRun",
    "RunEvaluation",
    "ScoringError",
    "__version__",
    "compare",
    "compare_until_decided",
    "evaluate_run",
    "ground",
    "load_benchmark",
    "read_results",
    "retrieve",
    "score",
    "score_rows",
]

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ragtasks.api import (
        Decision,
        Differences,
        LoadedBenchmark,
        Results,
        RetrievedRun,
        RunEvaluation,
        ScoringError,
        compare,
        compare_until_decided,
        evaluate_run,
        load_benchmark,
        read_results,
        retrieve,
        score,
        score_rows,
    )
    from ragtasks.metrics import GroundedSentence, Grounding, ground
else:
    _OF_METRICS = {"GroundedSentence", "Grounding", "ground"}

    def __getattr__(name: str) -> object:
        """Import a name of `__all__` on first use (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "ragtasks.metrics" if name in _OF_METRICS else "ragtasks.api"
        return getattr(importlib.import_module(home), name)

    def __dir__() -> list[str]:
        """Return the names of the module, including names that are not imported yet."""
        return sorted({*globals(), *__all__})
