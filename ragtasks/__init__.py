"""Multi-turn retrieval-augmented generation benchmarks as tasks of lm-evaluation-harness.

Importing this package does no work: no model, no network, no logging set-up; what `__all__` names is imported at its
first use. The harness finds the tasks through the YAML files (`ragtasks tasks link`, or
`--include_path "$(ragtasks tasks path)"`).
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
        """Return a name of `__all__`, imported when it is first asked for (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "ragtasks.metrics" if name in _OF_METRICS else "ragtasks.api"
        return getattr(importlib.import_module(home), name)

    def __dir__() -> list[str]:
        """Return the names of the module, those that are not imported yet included."""
        return sorted({*globals(), *__all__})
