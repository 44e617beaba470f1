"""Best of n: a judge rates several answers of one model to a task, and the best one is the model's answer.

The judge sees what a system would see at that moment: conversation, passages and answer, never the reference answer. So
its question is that of the reference-less rating `rl_mtb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ragtasks.clients import CallUsage, Client, Endpoint
from ragtasks.config.environment import reply_cache_file, secret
from ragtasks.errors import JudgeError
from ragtasks.judges import RL_MTB, judge_responses, rubrics_named
from ragtasks.progress import progress_bars
from ragtasks.records import Response
from ragtasks.scoring._failures import record_failure, survive


@dataclass(frozen=True, slots=True)
class Picked:
    """Which of several answers was picked."""

    index: int
    """Its place among the answers, from 0."""
    ratings: tuple[float | None, ...]
    """The judge's rating of each, 0 to 1; None where it gave none, or the answer did not come."""
    calls: tuple[CallUsage, ...] = field(default=(), compare=False)

    @property
    def is_rated(self) -> bool:
        """Whether the judge rated any: otherwise the first answer stands."""
        return any(rating is not None for rating in self.ratings)


def pick_best(
    candidates: Sequence[Sequence[Response]], picker: Endpoint | Client, min_coverage: float = 0.95
) -> list[Picked]:
    """Return which answer of each task a judge rates best; the first of those with the highest rating.

    An answer without a rating is picked only where none has one: then the first that came. A judge that cannot be had,
    or that rates too few, is a failure of the evaluation; in the first case the first answers stand.
    """
    asked = [response for responses in candidates for response in responses if not response.no_answer]
    none = _Rating(None, ())
    found = iter(survive("picking", lambda: _ratings(asked, picker, min_coverage), lambda _: [none] * len(asked)))
    ratings = [[none if response.no_answer else next(found) for response in responses] for responses in candidates]
    return [_picked(responses, own) for responses, own in zip(candidates, ratings, strict=True)]


@dataclass(frozen=True, slots=True)
class _Rating:
    value: float | None
    calls: tuple[CallUsage, ...]


def _ratings(responses: Sequence[Response], picker: Endpoint | Client, min_coverage: float) -> list[_Rating]:
    with progress_bars() as progress:
        verdicts = judge_responses(
            responses,
            [picker],
            secrets=secret,
            cache_file=reply_cache_file(),
            rubrics=rubrics_named([RL_MTB]),
            progress=progress,
        )
    try:
        verdicts.require_coverage(min_coverage)
    except JudgeError as error:
        record_failure(f"picking: {error}")
    return [_Rating(verdict.value, verdict.calls) for verdict in verdicts.all()]


def _picked(responses: Sequence[Response], ratings: Sequence[_Rating]) -> Picked:
    # A rating beats none, an answer beats none, then the rating decides, then the order.
    def merit(index: int) -> tuple[bool, float]:
        rating = ratings[index].value
        return not responses[index].no_answer, -1.0 if rating is None else rating

    calls = tuple(call for rating in ratings for call in rating.calls)
    return Picked(max(range(len(responses)), key=merit), tuple(rating.value for rating in ratings), calls)
