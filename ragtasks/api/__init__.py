"""What `import ragtasks` gives: the command line's work as functions, for notebooks and for programs of one's own."""

from ragtasks.api._answers import ScoringError, score
from ragtasks.api._benchmark import LoadedBenchmark, load_benchmark
from ragtasks.api._differences import Differences, compare
from ragtasks.api._results import Results, read_results
from ragtasks.api._runs import RetrievedRun, RunEvaluation, evaluate_run, retrieve
from ragtasks.errors import RagtasksError

__all__ = [
    "Differences",
    "LoadedBenchmark",
    "RagtasksError",
    "Results",
    "RetrievedRun",
    "RunEvaluation",
    "ScoringError",
    "compare",
    "evaluate_run",
    "load_benchmark",
    "read_results",
    "retrieve",
    "score",
]
