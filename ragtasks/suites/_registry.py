"""Which suites there are, and which metrics other packages add to them.

The name of a suite with added metrics says so, `mtrag+reading_ease`: results hold that name, so whoever reads them
later knows the metrics again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ragtasks.judges import added_rubric_names, rubrics_named
from ragtasks.plugins import ExtensionPoint
from ragtasks.suites._added import SuiteMetric, metric_of_rubric, with_metric
from ragtasks.suites._suite import Suite

SUITES = ExtensionPoint(
    "ragtasks.suites",
    "suite",
    Suite,
    {
        "mtrag": "ragtasks.suites._mtrag:SUITE",
        "mtrag_s": "ragtasks.suites._mtrag_s:SUITE",
        "multidoc2dial": "ragtasks.suites._multidoc2dial:SUITE",
        "multihop_rag": "ragtasks.suites._multihop_rag:SUITE",
        "rewriting": "ragtasks.suites._rewriting:SUITE",
        "rewriting_conditional": "ragtasks.suites._rewriting_conditional:SUITE",
        "trec_rag24": "ragtasks.suites.trec_rag:TREC_RAG24",
        "trec_rag25": "ragtasks.suites.trec_rag:TREC_RAG25",
    },
)
"""Every suite."""

METRICS = ExtensionPoint(
    "ragtasks.metrics",
    "added metric",
    SuiteMetric,
    {
        "context_precision": "ragtasks.suites._paper_metrics:PRECISION",
        "context_recall": "ragtasks.suites._paper_metrics:RECALL",
        "extractiveness": "ragtasks.suites._paper_metrics:EXTRACTIVENESS",
        "length": "ragtasks.suites._paper_metrics:LENGTH",
        "rl_mtb": "ragtasks.suites._paper_metrics:MTB",
        "rl_mtb_raw": "ragtasks.suites._paper_metrics:MTB_RAW",
        "rl_r": "ragtasks.suites._paper_metrics:RELEVANCE",
        "rl_r_raw": "ragtasks.suites._paper_metrics:RELEVANCE_RAW",
    },
)
"""Metrics that can be added to a suite; those of the suites themselves stand in them."""

_PLUS = "+"


@functools.lru_cache(maxsize=16)
def suite_named(name: str) -> Suite:
    """Return the suite of a name, with the metrics that the name adds behind `+`.

    Raises:
        ConfigurationError: there is no such suite or metric; or what another package adds cannot be used.
    """
    own, *added = name.split(_PLUS)
    suite = SUITES.get(own)
    for metric in added:
        suite = with_metric(suite, own, _added(metric))
    return suite


def _added(name: str) -> SuiteMetric:
    """Return the metric of a name; a rubric of another package is one by itself."""
    if name not in METRICS.names() and name in added_rubric_names():
        return metric_of_rubric(*rubrics_named([name]))
    return METRICS.get(name)


def added_metric_names() -> list[str]:
    """Return the names of the metrics that can be added to a suite, ours and others'; nothing is imported."""
    return sorted({*METRICS.names(), *added_rubric_names()})


def suite_with(name: str, metrics: Sequence[str]) -> str:
    """Return the name of a suite with exactly these metrics added; what the name adds before is taken off."""
    return _PLUS.join([name.partition(_PLUS)[0], *metrics])


__all__ = ["METRICS", "SUITES", "added_metric_names", "suite_named", "suite_with"]
