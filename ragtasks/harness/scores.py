"""The scores of one harness task, as the harness asks for them: document by document, then together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean

from ragtasks.benchmarks import Doc, passage_rows
from ragtasks.harness.answers import NoAnswer, SystemAnswer
from ragtasks.metrics import Metric, Pair, answer_text
from ragtasks.results import ScoredAnswer, saved_summary
from ragtasks.scoring import plausibility_of


class TaskScores:
    """Keeps the scored answers of one harness task until the harness requests their values."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics
        self._answers: dict[str, ScoredAnswer] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, task_id: str) -> ScoredAnswer:
        return self._answers[task_id]

    def forget(self) -> None:
        """Remove all scores, before other requests are sent."""
        self._answers = {}

    def take(self, answers: Iterable[ScoredAnswer]) -> None:
        """Keep scored answers by their task."""
        self._answers = {answer.task.task_id: answer for answer in answers}

    def provenance(self) -> dict[str, Any]:
        """Return what results say of implausible answers; {} where nothing was checked."""
        return plausibility_of(self._answers.values())

    def summary(self) -> dict[str, Any]:
        """Return the means of all answers."""
        return saved_summary(self._answers.values())

    def aggregations(self, names: Iterable[str]) -> dict[str, Callable[..., float]]:
        """Return metric -> what makes one number of its values: the mean over the scored documents, or its own way."""
        return {name: self._together(name) or _Mean() for name in names}

    def _together(self, name: str) -> Callable[[Iterable[Pair | float]], float] | None:
        aggregate = self._metrics[name].aggregate
        return None if aggregate is None else lambda pairs: aggregate(item for item in pairs if isinstance(item, tuple))


class _Mean:
    """The mean over the scored documents, with the harness's standard error if every document is scored.

    The harness looks the standard error up by the aggregation, after it was called. With several ranks, only the call
    shows the values of all documents. So after a call without unscored values this equals the harness's own `mean`.
    """

    def __init__(self) -> None:
        self._is_mean = False

    def __call__(self, values: Iterable[float]) -> float:
        given = list(values)
        self._is_mean = not any(map(math.isnan, given))
        return float(mean(given)) if self._is_mean and given else mean_of_scored(given)

    def __eq__(self, other: object) -> bool:
        return self is other or (self._is_mean and other is mean)

    def __hash__(self) -> int:
        return hash(mean)


# Means over what is scored, for a task and for the groups that it stands in.
# The harness knows one number of documents a task, and makes the score of a group by `sum(mean * n for each task) /
# sum(n)` (`lm_eval.api.metrics.aggregate_subtask_metrics`). Where a document of a task is unscored, that weighs the
# task by too many. A group's `aggregation` in its YAML is checked by the harness and never called (0.4.13), so the
# mean itself knows how many documents it is over, and takes part in this formula accordingly: a group has the mean
# over all its scored documents, whichever tasks they are of.


class MeanOfScored(float):
    """A mean over the scored documents of a task, NaN without any; a float like others but for a group's formula."""

    n_scored: int
    """Documents that it is over."""
    n_unscored: int
    """The task's other documents."""

    def __mul__(self, size: float) -> float:
        """Return the product; by the task's number of documents, a sum that knows how many of them are scored."""
        product = float(self) * size
        if size != self.n_scored + self.n_unscored:
            return product
        return _weighted(product, float(self) * self.n_scored if self.n_scored else 0.0, self.n_unscored)


class _Weighted(float):
    """Means times numbers of documents, added up: what the harness takes it for, and what the scored ones add up to."""

    of_scored: float
    """Sum over the scored documents."""
    n_unscored: int
    """Documents that the harness counts and that have no part in it."""

    def __add__(self, other: float) -> float:
        """Return both together; a plain float is of a task whose every document is scored."""
        of_scored, n_unscored = (other.of_scored, other.n_unscored) if isinstance(other, _Weighted) else (other, 0)
        return _weighted(float(self) + float(other), self.of_scored + of_scored, self.n_unscored + n_unscored)

    __radd__ = __add__

    def __truediv__(self, size: float) -> float:
        """Return the mean over the scored ones of `size` documents; NaN where none is."""
        n_scored = size - self.n_unscored
        return self.of_scored / n_scored if n_scored else math.nan


def _weighted(value: float, of_scored: float, n_unscored: int) -> _Weighted:
    made = _Weighted(value)
    made.of_scored, made.n_unscored = of_scored, n_unscored
    return made


def mean_of_scored(values: Iterable[float]) -> MeanOfScored:
    """Return the mean of the values that are numbers; NaN where none is.

    The harness's own `nanmean` gives the same score, but bootstraps its standard error 100,000 times for each metric
    of each task, which takes minutes. Items of one conversation are not independent, so that error is too small anyway.
    """
    given = list(values)
    scored = [value for value in given if not math.isnan(value)]
    found = MeanOfScored(sum(scored) / len(scored) if scored else math.nan)
    found.n_scored, found.n_unscored = len(scored), len(given) - len(scored)
    return found


# What came back for the requests of one harness task: the text of each reply, and the passages that it is based on.


class TaskAnswers:
    """The answers to one harness task's docs."""

    def __init__(self, end_of_thinking: str) -> None:
        self._end_of_thinking = end_of_thinking
        self._no_answers: dict[str, str] = {}
        self._system_passages: dict[str, list[dict[str, str]]] = {}
        self._usage: dict[str, Mapping[str, Any]] = {}

    def take(self, instances: Sequence[Instance]) -> None:
        """Record the missing replies, and make every reply valid text for a file; safe to repeat."""
        replies = {instance.doc["task_id"]: instance.resps[0] for instance in instances}
        self._no_answers = {name: reply.reason for name, reply in replies.items() if isinstance(reply, NoAnswer)}
        known = {name: reply for name, reply in replies.items() if isinstance(reply, (NoAnswer, SystemAnswer))}
        self._usage |= {name: reply.usage for name, reply in known.items() if reply.usage}
        passages = {name: reply.passages for name, reply in known.items() if isinstance(reply, SystemAnswer)}
        self._system_passages |= {name: passage_rows(found) for name, found in passages.items() if found is not None}
        for instance in instances:
            instance.resps = [writable(reply) for reply in instance.resps]

    def text(self, instance: Instance) -> str:
        """Return the answer to a request."""
        return answer_text(str(instance.resps[0] or ""), self._end_of_thinking)

    def reported(self, doc: Doc, kept: Mapping[str, int]) -> Doc:
        """Return a doc as the model was shown it, with the reason why there is no answer to it, where there is none."""
        used, reason = self._with_passages_used(doc, kept), self._no_answers.get(doc["task_id"])
        return used if reason is None else {**used, "no_answer": reason}

    def usage(self, task_id: str) -> Mapping[str, Any]:
        """Return what an answer took, as far as anybody counted it."""
        return self._usage.get(task_id, {})

    def _with_passages_used(self, doc: Doc, kept: Mapping[str, int]) -> Doc:
        """Return a doc with the passages its answer rests on: a system's own, or those that fit into the prompt."""
        n_kept, passages = kept.get(doc["task_id"]), self._system_passages.get(doc["task_id"])
        if passages is not None:
            return {**doc, "passages": passages}
        return doc if n_kept is None else {**doc, "passages": doc["passages"][:n_kept]}


def writable(reply: Any) -> Any:
    """Return a reply whose halves of a character are replaced: a server that cuts at a token limit may send one.

    No UTF-8 holds it, so one such reply would keep the harness from saving all of them. A reply that did not come keeps
    its reason.
    """
    if not isinstance(reply, str):
        return reply
    written = reply.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return reply if written == reply else written  # a reply that knows more than its text stays what it is
