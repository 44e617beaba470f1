"""Perplexity of the reference answers, with the harness's own metrics.

`output_type: loglikelihood_rolling` scores the answer alone. Without context, it measures how well a model predicts the
language of the answers, not their content. `output_type: loglikelihood` conditions the answer on the prompt of a
generation task, including passages and conversation. Perplexities are per word and per byte, as the harness defines
them, because it does not report a model's tokens. A perplexity per token, as in papers, depends on the tokenizer and
cannot be computed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import bits_per_byte, weighted_perplexity
from lm_eval.api.task import ConfigurableTask

from ragtasks.benchmarks import Doc
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.metrics import COUNT, Metric
from ragtasks.records import Answerability

_AGGREGATIONS = {
    "word_perplexity": weighted_perplexity,
    "byte_perplexity": weighted_perplexity,
    "bits_per_byte": bits_per_byte,
}
METRICS = (
    Metric("word_perplexity", "perplexity of the reference answers per word", False, bounds=COUNT),
    Metric("byte_perplexity", "perplexity of the reference answers per byte", False, bounds=COUNT),
    Metric("bits_per_byte", "bits per byte of the reference answers", False, bounds=COUNT),
)
"""Every metric, as the harness defines it, in table order."""


class ReferencePerplexityTask(ConversationTask):
    """The reference answers of one setting of a benchmark, scored by their likelihood.

    The YAML is that of a generation task with another `output_type`. Unanswerable questions are left out, because their
    reference answers are apologies.
    """

    def _declared_metrics(self) -> Sequence[Metric]:
        return METRICS

    def _harness_metric(self, metric: Metric) -> dict[str, Any]:
        return {**super()._harness_metric(metric), "aggregation": _AGGREGATIONS[metric.name].__name__}

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        """Build this task's docs, without unanswerable questions."""
        super().download(dataset_kwargs, **options)
        rows = self.dataset["test"]
        kept = [index for index, label in enumerate(rows["answerability"]) if label != Answerability.UNANSWERABLE.value]
        self.dataset = {"test": rows.select(kept)}

    def construct_requests(self, doc: Doc, ctx: Any, **options: Any) -> Any:
        """Return the request: the answer alone, or the answer after the prompt (and a space, if it is plain text)."""
        if self.OUTPUT_TYPE == "loglikelihood" and isinstance(ctx, str):
            has_chat_template = bool(options.get("apply_chat_template"))
            blank = "" if has_chat_template or ctx[-1:].isspace() else " "
            arguments = ctx, f"{blank}{doc['target']}"
            return Instance("loglikelihood", doc, arguments, 0, metadata=options.get("metadata"))
        return ConfigurableTask.construct_requests(self, doc, ctx, **options)

    def apply_filters(self) -> None:
        """Keep the likelihoods: there are no answers to score."""
        ConfigurableTask.apply_filters(self)

    def is_scored_with(self, other: ConversationTask) -> bool:
        """Return False: likelihoods are not scored with the answers of other tasks."""
        return False

    def process_results(self, doc: Doc, results: list[Any]) -> dict[str, tuple[float, int]]:
        """Return metric -> (log-likelihood of the answer, its number of words or bytes)."""
        reply = results[0]
        likelihood = float(reply[0] if isinstance(reply, tuple | list) else reply)
        n_words, n_bytes = len(re.split(r"\s+", doc["target"])), len(doc["target"].encode("utf-8"))
        scores = {
            "word_perplexity": (likelihood, n_words),
            "byte_perplexity": (likelihood, n_bytes),
            "bits_per_byte": (likelihood, n_bytes),
        }
        return {name: scores[name] for name in self._metric_fn_list}

    def aggregation(self) -> dict[str, Any]:
        """Return metric -> the harness's own aggregation of it."""
        return {name: _AGGREGATIONS[name] for name in self._metric_fn_list}
