"""How likely a model finds the reference answers: perplexity by the harness's own scores.

`output_type: loglikelihood_rolling` scores the answer alone: rolling likelihood has no context, so it says how well a
model knows the language of the answers, not whether it can answer. `output_type: loglikelihood` conditions the same
answer on the prompt that a generation task would send, passages and conversation included. Perplexities are per word
and per byte of the answer, as the harness defines them, since it keeps a model's tokens to itself; a score per token,
as papers report, depends on the tokeniser and cannot be had from it.
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
    Metric("word_perplexity", "perplexity of the reference answers, a word", False, bounds=COUNT),
    Metric("byte_perplexity", "perplexity of the reference answers, a byte", False, bounds=COUNT),
    Metric("bits_per_byte", "bits that a byte of the reference answers takes", False, bounds=COUNT),
)
"""Every metric, as the harness defines it, in the order of its table."""


class ReferencePerplexityTask(ConversationTask):
    """The reference answers of one setting of a benchmark, to be found likely or not.

    Its YAML is that of a generation task with another `output_type`. Questions without an answer are left out: their
    reference answers are apologies.
    """

    def _declared_metrics(self) -> Sequence[Metric]:
        return METRICS

    def _listed(self, metric: Metric) -> dict[str, Any]:
        return {**super()._listed(metric), "aggregation": _AGGREGATIONS[metric.name].__name__}

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        """Build this task's docs, unanswerable ones left out."""
        super().download(dataset_kwargs, **options)
        rows = self.dataset["test"]
        kept = [place for place, label in enumerate(rows["answerability"]) if label != Answerability.UNANSWERABLE.value]
        self.dataset = {"test": rows.select(kept)}

    def construct_requests(self, doc: Doc, ctx: Any, **options: Any) -> Any:
        """Return the request: the answer alone, or behind the prompt with the blank that keeps their words apart."""
        if self.OUTPUT_TYPE == "loglikelihood" and isinstance(ctx, str):
            has_chat_template = bool(options.get("apply_chat_template"))
            blank = "" if has_chat_template or ctx[-1:].isspace() else " "
            arguments = ctx, f"{blank}{doc['target']}"
            return Instance("loglikelihood", doc, arguments, 0, metadata=options.get("metadata"))
        return ConfigurableTask.construct_requests(self, doc, ctx, **options)

    def apply_filters(self) -> None:
        """Take the likelihoods as they are: there is no answer to score."""
        ConfigurableTask.apply_filters(self)

    def awaits_scores_of(self, other: ConversationTask) -> bool:
        """Return False: its replies are no answers, and are not scored with those of other tasks."""
        return False

    def process_results(self, doc: Doc, results: list[Any]) -> dict[str, tuple[float, int]]:
        """Return metric -> (log-likelihood of the answer, its number of words or bytes)."""
        found = results[0]
        likelihood = float(found[0] if isinstance(found, tuple | list) else found)
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
