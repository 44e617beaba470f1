"""What a suite of metrics is: definitions, what judges are asked for them, and the function that computes them.

A benchmark names the suite that scores it. The scoring of an evaluation (encoder, refusals, judges, caches) is the same
for all and hands over what it found as `ScoringInputs`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.config import DEFAULT_ENCODER, EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.judges import Rubric, Verdicts, added_rubric_names, rubrics_named
from ragtasks.metrics import IdkLabel, Metric, Scores, Search, Semantics, SemanticScore
from ragtasks.plugins import ExtensionPoint
from ragtasks.records import Response, Score


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

    def answers(self) -> Iterator[tuple[Response, IdkLabel, SemanticScore | None]]:
        """Yield each response with its label and its BERTScore scores, None where there are none."""
        semantics: Sequence[SemanticScore | None] = self.semantics.scores or [None] * len(self.responses)
        yield from zip(self.responses, self.labels, semantics, strict=True)


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
    settled: tuple[str, ...] = ()
    """Rubrics whose score counts only where `is_settled` does not hold: `skip_settled` asks them nowhere else."""
    known_refusals: tuple[str, ...] = ()
    """Sentences with which the benchmark's own answers refuse, word for word; offline detectors read them as `yes`."""
    uses_encoder: bool = True
    """Whether any metric rests on BERTScore."""
    encoder: str = DEFAULT_ENCODER
    """The encoder of BERTScore where none is named; a sample has its own."""
    uses_retriever: bool = False
    """Whether any metric rests on what a retriever finds for the responses."""

    def __post_init__(self) -> None:
        names = [metric.name for metric in self.metrics if isinstance(metric, Metric)]
        if len(names) < len(self.metrics) or not callable(self.score) or not callable(self.rubrics):
            raise ConfigurationError("Suite(metrics: tuple of Metric, score: callable, rubrics: callable, ...)")
        if len(set(names)) < len(names):
            raise ConfigurationError(f"Suite: two metrics of one name among {', '.join(names)}")

    def rubrics_in(self, prompts: str, benchmark: Benchmark | None = None) -> Sequence[Rubric]:
        """Return the rubrics with prompts `ours`, or `official` from the benchmark's files."""
        if prompts == "ours":
            return self.rubrics()
        if self.official_rubrics is None or benchmark is None:
            raise ConfigurationError(
                "prompts=official: this benchmark has no official judge prompts. Next step: leave it out"
            )
        return self.official_rubrics(benchmark)


def extended(
    suite: Suite, metrics: Sequence[Metric], more: Callable[[ScoringInputs], Sequence[Scores]], **fields: Any
) -> Suite:
    """Return a suite with the metrics of a benchmark and the function of their scores, and with other fields.

    The official judge prompts are of another benchmark, so they are left out.
    """
    changes = {"official_rubrics": None, **fields}
    return replace(suite, metrics=(*suite.metrics, *metrics), score=partial(_score_both, suite.score, more), **changes)


def _score_both(
    first: Callable[[ScoringInputs], list[Scores]],
    second: Callable[[ScoringInputs], Sequence[Scores]],
    inputs: ScoringInputs,
) -> list[Scores]:
    return [{**scores, **others} for scores, others in zip(first(inputs), second(inputs), strict=True)]


# One metric with its computation: how a metric joins a suite that is there, from this package or from another.


@dataclass(frozen=True, slots=True)
class SuiteMetric:
    """A metric that can be added to a suite; `--metadata '{"metrics": [NAME]}'` does."""

    metric: Metric
    """Its declaration."""
    score: Callable[[ScoringInputs], Sequence[Score]]
    """Scoring inputs -> one score a response, in order. Called only where there are verdicts if it needs judges."""
    rubrics: Callable[[], Sequence[Rubric]] = no_rubrics
    """What judges are asked for it beside what its suite asks, in our words: there are no others."""

    def __post_init__(self) -> None:
        if not isinstance(self.metric, Metric) or not callable(self.score) or not callable(self.rubrics):
            raise ConfigurationError("SuiteMetric(metric: Metric, score: callable, rubrics: callable)")


def verdict_scores(rubric: str, inputs: ScoringInputs) -> Sequence[Score]:
    """Return what judges said under a rubric as one score a response."""
    assert inputs.verdicts is not None
    return inputs.verdicts.scores(rubric)


def metric_of_rubric(rubric: Rubric) -> SuiteMetric:
    """Return the metric that a rubric is by itself: what judges said of each response, not conditioned."""
    metric = Metric(
        rubric.name, f"{rubric.description}, by LLM judges", needs_judges=True, rubrics=frozenset({rubric.name})
    )
    return SuiteMetric(metric, partial(verdict_scores, rubric.name), rubrics=lambda: [rubric])


def with_metric(suite: Suite, name: str, added: SuiteMetric) -> Suite:
    """Return a suite with one more metric."""
    metric = added.metric.name
    if metric in {item.name for item in suite.metrics}:
        raise ConfigurationError(f"metric {metric!r} stands in the suite {name!r} already; leave it out")
    official = suite.official_rubrics
    return replace(
        suite,
        metrics=(*suite.metrics, added.metric),
        score=partial(_score, suite, added),
        rubrics=lambda: _joined(suite.rubrics(), added.rubrics()),
        official_rubrics=(lambda benchmark: _joined(official(benchmark), added.rubrics())) if official else None,
    )


def _joined(rubrics: Sequence[Rubric], more: Sequence[Rubric]) -> list[Rubric]:
    """Return rubrics of different names: one that is asked already is not asked twice."""
    names = {rubric.name for rubric in rubrics}
    return [*rubrics, *(rubric for rubric in more if rubric.name not in names)]


def _score(suite: Suite, added: SuiteMetric, inputs: ScoringInputs) -> list[Scores]:
    scores = suite.score(inputs)
    if added.metric.needs_judges and inputs.verdicts is None:
        return scores
    extra = list(added.score(inputs))
    if len(extra) != len(scores) or not all(isinstance(score, Score) for score in extra):
        raise ConfigurationError(f"metric {added.metric.name!r}: not one Score for each of {len(scores)} responses")
    return [{**others, added.metric.name: score} for others, score in zip(scores, extra, strict=True)]


# Which suites there are, and which metrics other packages add to them.
# The name of a suite with added metrics says so, `mtrag+reading_ease`: results hold that name, so whoever reads
# them later knows the metrics again.

SUITES = ExtensionPoint(
    "ragtasks.suites",
    "suite",
    Suite,
    {
        "agentic": "ragtasks.suites._agentic:SUITE",
        "ikat_facts": "ragtasks.suites._ikat_facts:SUITE",
        "inscit": "ragtasks.suites._inscit:SUITE",
        "mtrag": "ragtasks.suites._mtrag:SUITE",
        "mtrag_s": "ragtasks.suites._mtrag:MTRAG_S",
        "multidoc2dial": "ragtasks.suites._multidoc2dial:SUITE",
        "multihop_rag": "ragtasks.suites._multihop_rag:SUITE",
        "rewriting": "ragtasks.suites._rewriting:SUITE",
        "rewriting_conditional": "ragtasks.suites._rewriting:CONDITIONAL_SUITE",
        "rows": "ragtasks.suites._rows:SUITE",
        "trec_rag24": "ragtasks.suites.trec_rag:TREC_RAG24",
        "trec_rag25": "ragtasks.suites.trec_rag:TREC_RAG25",
    },
)
"""Every suite."""

FOLLOWED = "injected_followed"
"""What is added where passages carry instructions: whether answers follow these."""

METRICS = ExtensionPoint(
    "ragtasks.metrics",
    "added metric",
    SuiteMetric,
    {
        "cited_precision": "ragtasks.suites._added_metrics:CITED_PRECISION_BY_NAME",
        "cited_recall": "ragtasks.suites._added_metrics:CITED_RECALL_BY_NAME",
        "context_precision": "ragtasks.suites._added_metrics:PRECISION",
        "context_recall": "ragtasks.suites._added_metrics:RECALL",
        "extractiveness": "ragtasks.suites._added_metrics:EXTRACTIVENESS",
        FOLLOWED: "ragtasks.suites._agentic:INJECTED_FOLLOWED",
        "k_precision": "ragtasks.suites._added_metrics:K_PRECISION",
        "length": "ragtasks.suites._added_metrics:LENGTH",
        "rl_f_conversation": "ragtasks.suites._added_metrics:CONVERSATION",
        "rl_f_conversation_raw": "ragtasks.suites._added_metrics:CONVERSATION_RAW",
        "rl_mtb": "ragtasks.suites._added_metrics:MTB",
        "rl_mtb_raw": "ragtasks.suites._added_metrics:MTB_RAW",
        "rl_r": "ragtasks.suites._added_metrics:RELEVANCE",
        "rl_r_raw": "ragtasks.suites._added_metrics:RELEVANCE_RAW",
        "support_precision": "ragtasks.suites._added_metrics:SUPPORT_PRECISION",
        "support_recall": "ragtasks.suites._added_metrics:SUPPORT_RECALL",
    },
)
"""Metrics that can be added to a suite; those of the suites themselves stand in them."""

_PLUS = "+"
AGENTIC = "agentic"
"""What is added to the name of a suite for models that search while they answer: all metrics of what they did."""


@functools.lru_cache(maxsize=16)
def suite_named(name: str) -> Suite:
    """Return the suite of a name, with the metrics that the name adds behind `+`."""
    base, *added = name.split(_PLUS)
    suite = SUITES.get(base)
    for metric in added:
        suite = _searching(suite) if metric == AGENTIC else with_metric(suite, base, _added(metric))
    return suite


def _searching(suite: Suite) -> Suite:
    """Return a suite with the metrics of what a model did before it answered."""
    trajectories = SUITES.get(AGENTIC)
    return extended(suite, trajectories.metrics, trajectories.score, official_rubrics=suite.official_rubrics)


def without_agentic(name: str) -> str:
    """Return the name of a suite less that its models search: what both kinds of models have, compares."""
    return _PLUS.join(part for part in name.split(_PLUS) if part != AGENTIC)


def requested_metrics(name: str) -> list[str]:
    """Return the metrics that a configuration added to a suite, from the suite's name."""
    return [part for part in name.split(_PLUS)[1:] if part not in {AGENTIC, FOLLOWED}]


def _added(name: str) -> SuiteMetric:
    """Return the metric of a name; a rubric of another package is one by itself."""
    if name not in METRICS.names() and name in added_rubric_names():
        return metric_of_rubric(*rubrics_named([name]))
    return METRICS.get(name)


def added_metric_names() -> list[str]:
    """Return the names of the metrics that can be added to a suite, ours and others'; nothing is imported."""
    return sorted({*METRICS.names(), *added_rubric_names()})


def known_metric_names() -> list[str]:
    """Return the names of the metrics of all suites, and of those that can be added."""
    return sorted(
        {metric.name for name in SUITES.names() for metric in SUITES.get(name).metrics} | {*added_metric_names()}
    )


def suite_with(name: str, config: EvaluationConfig) -> str:
    """Return the name of a suite with the metrics that a configuration adds, in place of those that it had added."""
    base, *parts = name.split(_PLUS)
    added = [*(part for part in parts if part == AGENTIC), *config.metrics]
    if config.injected:
        added.append(FOLLOWED)
    return _PLUS.join([base, *dict.fromkeys(added)])
