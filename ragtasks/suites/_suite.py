"""What a suite of metrics is: definitions, what judges are asked for them, and the function that computes them.

A benchmark names the suite that scores it. The scoring of an evaluation (encoder, refusals, judges, caches) is the same
for all and hands over what it found as `ScoringInputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.judges import Rubric, Verdicts
from ragtasks.metrics import IdkLabel, Metric, Scores, Search, Semantics
from ragtasks.records import Response


@dataclass(frozen=True, slots=True)
class ScoringInputs:
    """What is known of some responses before their metrics are computed; sequences have one item a response."""

    benchmark: Benchmark
    """Where their tasks come from."""
    responses: Sequence[Response]
    """What the model answered."""
    labels: Sequence[IdkLabel]
    """Whether each says that it does not know."""
    semantics: Semantics
    """BERTScore scores, or the reason why there are none."""
    verdicts: Verdicts | None = None
    """What judges said; None where there are no judges, or none could be had."""
    search: Search | None = None
    """Searches the benchmark's corpora; None for a suite that searches nothing."""


def no_rubrics() -> Sequence[Rubric]:
    """Return nothing: judges are asked nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Suite:
    """The metrics of a kind of benchmark.

    Raises:
        ConfigurationError: a field of another kind, or two metrics of one name.
    """

    metrics: tuple[Metric, ...]
    """Every metric, in the order of the harness's table."""
    score: Callable[[ScoringInputs], list[Scores]]
    """Scoring inputs -> metric name -> score of each response, in order; what needs judges only with verdicts."""
    rubrics: Callable[[], Sequence[Rubric]] = no_rubrics
    """What judges are asked, in our words."""
    official_rubrics: Callable[[Benchmark], Sequence[Rubric]] | None = None
    """Benchmark -> the same in the official words that lie with its files; None: none are known."""
    known_refusals: tuple[str, ...] = ()
    """Sentences with which the benchmark's own answers refuse, word for word; the rules know them whatever they say."""
    uses_encoder: bool = True
    """Whether any metric rests on BERTScore."""
    uses_retriever: bool = False
    """Whether any metric rests on what a retriever finds for the responses."""

    def __post_init__(self) -> None:
        names = [metric.name for metric in self.metrics if isinstance(metric, Metric)]
        if len(names) < len(self.metrics) or not callable(self.score) or not callable(self.rubrics):
            raise ConfigurationError("Suite(metrics: tuple of Metric, score: callable, rubrics: callable, ...)")
        if len(set(names)) < len(names):
            raise ConfigurationError(f"Suite: two metrics of one name among {', '.join(names)}")

    def rubrics_in(self, prompts: str, benchmark: Benchmark) -> Sequence[Rubric]:
        """Return what judges are asked, in the words that the configuration names.

        Args:
            prompts: `ours` or `official`.
            benchmark: whose files hold the official words.

        Raises:
            ConfigurationError: official words are asked for, and there are none, or they are not with the files.
        """
        if prompts == "ours":
            return self.rubrics()
        if self.official_rubrics is None:
            raise ConfigurationError('prompts "official": this benchmark has no official judge prompts; leave it out')
        return self.official_rubrics(benchmark)


__all__ = ["ScoringInputs", "Suite", "no_rubrics"]
