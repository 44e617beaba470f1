"""A suite: its metrics, and the function that computes them for all responses at once."""

from __future__ import annotations

from ragtasks.metrics import COUNT, Metric, Scores
from ragtasks.records import Response, Score
from ragtasks.suites import ScoringInputs, Suite

METRICS = (
    Metric("keyword_recall", "share of the question's keywords in the answer; unscored without keywords"),
    Metric("answer_words", "words of the answer", higher_is_better=None, bounds=COUNT),
)


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return metric -> score of each response, in order."""
    return [_score(response) for response in inputs.responses]


def _score(response: Response) -> Scores:
    keywords, words = response.task.extra["keywords"], response.text.lower().split()
    n_keywords = sum(any(keyword in word for word in words) for keyword in keywords)
    recall = Score(n_keywords / len(keywords)) if keywords else Score(None, "no keywords")
    return {"keyword_recall": recall, "answer_words": Score(float(len(words)))}


SUITE = Suite(metrics=METRICS, score=score, uses_encoder=False)
