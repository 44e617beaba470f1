"""Definition of a suite: its metrics, its judge rubrics, and the function that computes the scores.

A benchmark names the suite that scores it. The encoder, refusal detection, judges and caches are the same for all
suites, which receive the results as `ScoringInputs`.
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
    """Inputs of the metrics for some responses. Each sequence has one entry per response."""

    benchmark: Benchmark
    """The benchmark of the responses' tasks."""
    responses: Sequence[Response]
    labels: Sequence[IdkLabel]
    """Refusal labels."""
    semantics: Semantics
    """BERTScore scores, or the reason for missing scores."""
    verdicts: Verdicts | None = None
    """Verdicts of the judges; None without judges, or if all judges failed."""
    search: Search | None = None
    """Searches the benchmark's corpora; None for a suite without retrieval."""

    def answers(self) -> Iterator[tuple[Response, IdkLabel, SemanticScore | None]]:
        """Yield each response with its refusal label and its BERTScore scores, or None without scores."""
        semantics: Sequence[SemanticScore | None] = self.semantics.scores or [None] * len(self.responses)
        yield from zip(self.responses, self.labels, semantics, strict=True)


def no_rubrics() -> Sequence[Rubric]:
    """Return no rubrics."""
    return ()


@dataclass(frozen=True, slots=True)
class Suite:
    """The metrics of a type of benchmark.

    Raises:
        ConfigurationError: if a field has the wrong type, or two metrics have the same name.
    """

    metrics: tuple[Metric, ...]
    """Every metric, in table order."""
    score: Callable[[ScoringInputs], list[Scores]]
    """Scoring inputs -> metric name -> score, for each response in order. Judged metrics are returned only with
    verdicts.
    """
    rubrics: Callable[[], Sequence[Rubric]] = no_rubrics
    """Rubrics with the prompts of ragtasks."""
    official_rubrics: Callable[[Benchmark], Sequence[Rubric]] | None = None
    """Benchmark -> rubrics with the official prompts from its files; None if it has no official prompts."""
    settled: tuple[str, ...] = ()
    """Rubrics whose score is ignored if `ragtasks.metrics.is_settled` is true. With `skip_settled`, they skip these
    responses.
    """
    known_refusals: tuple[str, ...] = ()
    """Exact refusal sentences of the benchmark's own answers. Offline detectors label them `yes`."""
    uses_encoder: bool = True
    """A metric depends on BERTScore."""
    encoder: str = DEFAULT_ENCODER
    """Default BERTScore encoder; samples use another."""
    uses_retriever: bool = False
    """A metric depends on retrieval for the responses."""

    def __post_init__(self) -> None:
        names = [metric.name for metric in self.metrics if isinstance(metric, Metric)]
        if len(names) < len(self.metrics) or not callable(self.score) or not callable(self.rubrics):
            raise ConfigurationError("Suite(metrics: tuple of Metric, score: callable, rubrics: callable, ...)")
        if len(set(names)) < len(names):
            raise ConfigurationError(f"Suite: duplicate metric names in {', '.join(names)}")

    def rubrics_in(self, prompts: str, benchmark: Benchmark | None = None) -> Sequence[Rubric]:
        """Return the suite's rubrics if `prompts` is `ours`, or those from the benchmark's files if it is `official`.

        Raises:
            ConfigurationError: if the benchmark has no official prompts.
        """
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
    """Return a suite with further metrics, the function `more` that computes them, and other changed fields.

    Official rubrics are dropped by default, because they belong to another benchmark.
    """
    changes = {"official_rubrics": None, **fields}
    return replace(suite, metrics=(*suite.metrics, *metrics), score=partial(_score_both, suite.score, more), **changes)


def _score_both(
    first: Callable[[ScoringInputs], list[Scores]],
    second: Callable[[ScoringInputs], Sequence[Scores]],
    inputs: ScoringInputs,
) -> list[Scores]:
    return [{**scores, **added} for scores, added in zip(first(inputs), second(inputs), strict=True)]


# A single metric with its computation, which can be added to any suite, also by other packages.


@dataclass(frozen=True, slots=True)
class SuiteMetric:
    """A metric that can be added to a suite with `--metadata '{"metrics": [NAME]}'`."""

    metric: Metric
    score: Callable[[ScoringInputs], Sequence[Score]]
    """Scoring inputs -> one score per response, in order. A judged metric is called only with verdicts."""
    rubrics: Callable[[], Sequence[Rubric]] = no_rubrics
    """Rubrics to add to those of the suite. They use the prompts of ragtasks, also with `prompts=official`."""

    def __post_init__(self) -> None:
        if not isinstance(self.metric, Metric) or not callable(self.score) or not callable(self.rubrics):
            raise ConfigurationError("SuiteMetric(metric: Metric, score: callable, rubrics: callable)")


def verdict_scores(rubric: str, inputs: ScoringInputs) -> Sequence[Score]:
    """Return the judged score of each response under a rubric."""
    assert inputs.verdicts is not None
    return inputs.verdicts.scores(rubric)


def metric_of_rubric(rubric: Rubric) -> SuiteMetric:
    """Return the unconditioned metric of a rubric."""
    metric = Metric(
        rubric.name, f"{rubric.description}, by LLM judges", needs_judges=True, rubrics=frozenset({rubric.name})
    )
    return SuiteMetric(metric, partial(verdict_scores, rubric.name), rubrics=lambda: [rubric])


def with_metric(suite: Suite, name: str, added: SuiteMetric) -> Suite:
    """Return a suite with one more metric.

    Raises:
        ConfigurationError: if the suite already has a metric of this name.
    """
    metric = added.metric.name
    if metric in {declared.name for declared in suite.metrics}:
        raise ConfigurationError(f"metric {metric!r} is already in the suite {name!r}; leave it out")
    official = suite.official_rubrics
    return replace(
        suite,
        metrics=(*suite.metrics, added.metric),
        score=partial(_score, suite, added),
        rubrics=lambda: _deduplicated(suite.rubrics(), added.rubrics()),
        official_rubrics=(lambda benchmark: _deduplicated(official(benchmark), added.rubrics())) if official else None,
    )


def _deduplicated(rubrics: Sequence[Rubric], more: Sequence[Rubric]) -> list[Rubric]:
    """Return the rubrics without duplicates, by name."""
    names = {rubric.name for rubric in rubrics}
    return [*rubrics, *(rubric for rubric in more if rubric.name not in names)]


def _score(suite: Suite, added: SuiteMetric, inputs: ScoringInputs) -> list[Scores]:
    scores = suite.score(inputs)
    if added.metric.needs_judges and inputs.verdicts is None:
        return scores
    extra = list(added.score(inputs))
    if len(extra) != len(scores) or not all(isinstance(score, Score) for score in extra):
        raise ConfigurationError(
            f"metric {added.metric.name!r}: expected one Score for each of {len(scores)} responses"
        )
    return [{**row, added.metric.name: score} for row, score in zip(scores, extra, strict=True)]


# Lookup of suites and of metrics that other packages add.
#
# A suite's name lists its added metrics, such as `mtrag+reading_ease`. Results contain this name, from which readers
# restore the metrics.

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
FOLLOWED = "injected_followed"
"""Metric that is added for passages with injected instructions: share of answers that follow them."""

METRICS = ExtensionPoint(
    "ragtasks.metrics",
    "added metric",
    SuiteMetric,
    {
        "cited_missing": "ragtasks.suites._added_metrics:MISSING",
        "cited_never_shown": "ragtasks.suites._added_metrics:INVENTED",
        "cited_other_passage": "ragtasks.suites._added_metrics:OTHER_PASSAGE",
        "cited_precision": "ragtasks.suites._added_metrics:CITED_PRECISION_BY_NAME",
        "cited_recall": "ragtasks.suites._added_metrics:CITED_RECALL_BY_NAME",
        "cited_right": "ragtasks.suites._added_metrics:RIGHT",
        "cited_unsupported": "ragtasks.suites._added_metrics:UNSUPPORTED",
        "context_precision": "ragtasks.suites._added_metrics:PRECISION",
        "context_recall": "ragtasks.suites._added_metrics:RECALL",
        "extractiveness": "ragtasks.suites._added_metrics:EXTRACTIVENESS",
        FOLLOWED: "ragtasks.suites._agentic:INJECTED_FOLLOWED",
        "k_precision": "ragtasks.suites._added_metrics:K_PRECISION",
        "length": "ragtasks.suites._added_metrics:LENGTH",
        "n_citations": "ragtasks.suites._added_metrics:N_CITED",
        "n_statements": "ragtasks.suites._added_metrics:N_CITING",
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
"""Metrics that can be added to a suite. The built-in metrics of a suite are listed in the suite."""

_PLUS = "+"
AGENTIC = "agentic"
"""Suffix of a suite's name, which adds the metrics of searching models."""


@functools.lru_cache(maxsize=16)
def suite_named(name: str) -> Suite:
    """Return a suite by name, with the metrics listed after `+`."""
    base, *added = name.split(_PLUS)
    suite = SUITES.get(base)
    for metric in added:
        if metric == AGENTIC:
            agentic = SUITES.get(AGENTIC)
            suite = extended(suite, agentic.metrics, agentic.score, official_rubrics=suite.official_rubrics)
        else:
            suite = with_metric(suite, base, _added_metric(metric))
    return suite


def without_agentic(name: str) -> str:
    """Return the name of a suite without `agentic`: the metrics that searching and other models share."""
    return _PLUS.join(part for part in name.split(_PLUS) if part != AGENTIC)


def requested_metrics(name: str) -> list[str]:
    """Return the metrics that a configuration added, from the name of a suite."""
    return [part for part in name.split(_PLUS)[1:] if part not in {AGENTIC, FOLLOWED}]


def _added_metric(name: str) -> SuiteMetric:
    """Return an added metric by name. A rubric of another package is a metric by itself."""
    if name not in METRICS.names() and name in added_rubric_names():
        return metric_of_rubric(*rubrics_named([name]))
    return METRICS.get(name)


def added_metric_names() -> list[str]:
    """Return the names of the metrics that can be added to a suite, also of other packages, without imports."""
    return sorted({*METRICS.names(), *added_rubric_names()})


def known_metric_names() -> list[str]:
    """Return the names of the metrics of all suites, and of those that can be added."""
    return sorted(
        {metric.name for name in SUITES.names() for metric in SUITES.get(name).metrics} | {*added_metric_names()}
    )


def suite_with(name: str, config: EvaluationConfig) -> str:
    """Return the name of a suite with the metrics that a configuration adds. Earlier additions are replaced."""
    base, *parts = name.split(_PLUS)
    added = [*(part for part in parts if part == AGENTIC), *config.metrics]
    if config.injected:
        added.append(FOLLOWED)
    return _PLUS.join([base, *dict.fromkeys(added)])
