"""TopiOCQA's suite: MTRAG's scores, and exact match and F1 as its paper reports them (Adlakha et al. 2022, 5.2).

MTRAG's scores take the best of several answers. The official ones do not: see `official_scores`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from ragtasks.benchmarks.topiocqa import UNANSWERABLE
from ragtasks.metrics import Metric, Scores, exact_match, token_f1
from ragtasks.records import Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._suite import ScoringInputs, extended

METRICS = (
    Metric("em", "exact match as officially scored: with several answers, the mean of leaving each out in turn"),
    Metric("f1", "F1 of normalised tokens as officially scored: with several answers, the mean of leaving each out"),
    Metric("em_best", "exact match with the best of several answers"),
    Metric("f1_best", "F1 of normalised tokens with the best of several answers"),
)
"""What TopiOCQA has beyond MTRAG's metrics."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return what TopiOCQA adds of each response, in order."""
    return [_score(response.text, response.task.extra["answers"]) for response in inputs.responses]


def _score(text: str, answers: Sequence[str]) -> Scores:
    em, f1 = official_scores(text, answers)
    return {
        "em": Score(em),
        "f1": Score(f1),
        "em_best": Score(max(exact_match(text, answer) for answer in answers)),
        "f1_best": Score(max(_f1(text, answer) for answer in answers)),
    }


def official_scores(text: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1, 0 to 1, higher is better, as the official script computes them.

    Where there are several answers, each is left out in turn, the best of the others counts, and the mean of that is
    the score: people, who are scored against the others' answers, and models then have as many chances. A model that
    gives one of the answers word for word so need not have 1.

    Source: `evaluate_reader.py` of McGill-NLP/topiocqa at 49b710e, over 100 and not rounded.
    """
    rest = [[*answers[:place], *answers[place + 1 :]] for place in range(len(answers))] if answers[1:] else [answers]

    def mean(value: Callable[[str, str], float]) -> float:
        return fmean(max(value(text, answer) for answer in others) for others in rest)

    return mean(exact_match), mean(_f1)


def _f1(text: str, answer: str) -> float:
    """Return F1 of tokens; 1 for two texts that normalisation leaves nothing of, as the official script has it."""
    return max(token_f1(text, answer), exact_match(text, answer))


SUITE = extended(MTRAG, METRICS, score, known_refusals=(UNANSWERABLE,))
"""What TopiOCQA is scored with."""
