"""The scores of one harness task in the harness's form: per doc, then aggregated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean

from ragtasks.benchmarks import Doc, passage_rows
from ragtasks.harness.answers import NoAnswer, SystemAnswer
from ragtasks.metrics import Metric, answer_text


def aggregation_of(metric: Metric) -> Callable[..., float]:
    """Return the function that aggregates the values of a metric: the mean over scored docs, or the metric's own."""
    aggregate = metric.of_all
    return _Mean() if aggregate is None else lambda pairs: aggregate(pair for pair in pairs if isinstance(pair, tuple))


class _Mean:
    """The mean over the scored docs, with the harness's standard error if every doc is scored.

    The harness looks up the standard error by the aggregation, after calling it. With several ranks, only the call
    receives the values of all docs. An object that was called without unscored values therefore equals the harness's
    own `mean`.
    """

    def __init__(self) -> None:
        self._is_mean = False

    def __call__(self, values: Iterable[float]) -> float:
        numbers = list(values)
        self._is_mean = not any(map(math.isnan, numbers))
        return float(mean(numbers)) if self._is_mean and numbers else mean_of_scored(numbers)

    def __eq__(self, other: object) -> bool:
        return self is other or (self._is_mean and other is mean)

    def __hash__(self) -> int:
        return hash(mean)


# Means over scored docs, for a task and its groups. The harness assumes a fixed number of docs per task and computes a
# group's score as `sum(mean * n for each task) / sum(n)` (`lm_eval.api.metrics.aggregate_subtask_metrics`), which gives
# a task with unscored docs too much weight. It checks the `aggregation` in a group's YAML but never calls it (0.4.13).
# The mean therefore carries its number of scored docs through this formula, so that a group's score is the mean over
# all its scored docs.


class MeanOfScored(float):
    """A mean over the scored docs of a task, NaN without any.

    Only the group formula treats it differently from a float.
    """

    n_scored: int
    """Number of scored docs."""
    n_unscored: int
    """Number of unscored docs."""

    def __mul__(self, size: float) -> float:
        """Return the product: a `_Weighted` for the task's number of docs, else a float."""
        product = float(self) * size
        if size != self.n_scored + self.n_unscored:
            return product
        return _weighted(product, float(self) * self.n_scored if self.n_scored else 0.0, self.n_unscored)


class _Weighted(float):
    """Sum of means times numbers of docs. The float covers all docs, `of_scored` only the scored ones."""

    of_scored: float
    """Sum over the scored docs."""
    n_unscored: int
    """Number of docs that the harness counts without a score."""

    def __add__(self, other: float) -> float:
        """Return the sum; a plain float belongs to a task with all docs scored."""
        of_scored, n_unscored = (other.of_scored, other.n_unscored) if isinstance(other, _Weighted) else (other, 0)
        return _weighted(float(self) + float(other), self.of_scored + of_scored, self.n_unscored + n_unscored)

    __radd__ = __add__

    def __truediv__(self, size: float) -> float:
        """Return the mean over the scored docs among `size` docs; NaN without any."""
        n_scored = size - self.n_unscored
        return self.of_scored / n_scored if n_scored else math.nan


def _weighted(value: float, of_scored: float, n_unscored: int) -> _Weighted:
    result = _Weighted(value)
    result.of_scored, result.n_unscored = of_scored, n_unscored
    return result


def mean_of_scored(values: Iterable[float]) -> MeanOfScored:
    """Return the mean of the values that are not NaN; NaN without any.

    The harness's own `nanmean` gives the same score, but bootstraps its standard error 100,000 times per metric and
    task, which takes minutes. Turns of one conversation are not independent, so that error is too small anyway.
    """
    numbers = list(values)
    scored = [value for value in numbers if not math.isnan(value)]
    result = MeanOfScored(sum(scored) / len(scored) if scored else math.nan)
    result.n_scored, result.n_unscored = len(scored), len(numbers) - len(scored)
    return result


# Replies to the requests of one harness task: texts, and the passages that they are based on.


class TaskAnswers:
    """The answers to one harness task's docs."""

    def __init__(self, end_of_thinking: str) -> None:
        self._end_of_thinking = end_of_thinking
        self._replies: dict[str, NoAnswer | SystemAnswer] = {}

    def take(self, instances: Sequence[Instance]) -> None:
        """Keep failed requests, passages and usage, and make every reply writable to a file; may be called repeatedly.

        A writable reply may be a text without its passages and usage, so these are not replaced.
        """
        for instance in instances:
            if isinstance(reply := instance.resps[0], (NoAnswer, SystemAnswer)):
                self._replies[instance.doc["task_id"]] = reply
            instance.resps = [writable(reply) for reply in instance.resps]

    def text(self, instance: Instance) -> str:
        """Return the answer to a request."""
        return answer_text(str(instance.resps[0] or ""), self._end_of_thinking)

    def logged_doc(self, doc: Doc, kept: Mapping[str, int]) -> Doc:
        """Return a doc with the passages of its answer, and with the reason of a missing answer.

        The passages are the system's own, or those that fit into the prompt: the first `kept` of the task.
        """
        reply, n_kept = self._replies.get(doc["task_id"]), kept.get(doc["task_id"])
        if isinstance(reply, SystemAnswer) and reply.passages is not None:
            return {**doc, "passages": passage_rows(reply.passages)}
        used = doc if n_kept is None else {**doc, "passages": doc["passages"][:n_kept]}
        return {**used, "no_answer": reply.reason} if isinstance(reply, NoAnswer) else used

    def usage(self, task_id: str) -> Mapping[str, Any]:
        """Return the usage of an answer, as far as it was counted."""
        return self._replies[task_id].usage if task_id in self._replies else {}


def writable(reply: Any) -> Any:
    """Return a reply in which each half of a surrogate pair is replaced.

    A server that cuts at a token limit may send half a pair, which UTF-8 cannot encode, and the harness would save no
    reply at all. A failed reply keeps its reason.
    """
    if not isinstance(reply, str):
        return reply
    written = reply.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return reply if written == reply else written  # keeps the type and attributes of a reply that needs no change
