"""What was learned from labelled sentences: which say that information is missing, and which give an answer beside it.

Two logistic regressions over `features_of`, with few weights (`weights.json`). `perf/idk_training.py` makes the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ragtasks.metrics.idk_rules._features import Features, content_of, features_of, has_sign, is_of_others, tokens_of

GAP = 0.75
"""From this probability on, a sentence says that information is missing."""

_CONDITIONS = (["if"], ["when"], ["whenever"], ["unless"])
_LONG, _MANY = 40, 12
"""Words of a sentence and sentences of a response beyond which more make no difference."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of one response, read once."""

    tokens: list[list[str]]
    """`tokens_of` each."""
    features: list[set[str]]
    """`features_of` each."""

    @classmethod
    def of(cls, sentences: Sequence[str], features: Features | None = None) -> Sentences:
        """Return the sentences of `sentences_of`, read, with all their features or those that are asked for."""
        tokens = [tokens_of(sentence) for sentence in sentences]
        return cls(tokens, list(map(features.of if features else features_of, tokens)))


@dataclass(frozen=True, slots=True)
class Learned:
    """Two regressions, and what reads the features that they weigh."""

    weights: Mapping[str, Mapping[str, float]]
    """Regression -> feature -> weight; the empty feature is the intercept."""
    features: Mapping[str, Features]
    """Regression -> what reads its features alone."""

    @classmethod
    def of(cls, weights: Mapping[str, Mapping[str, float]]) -> Learned:
        """Return the regressions of these weights."""
        return cls(weights, {name: Features(one) for name, one in weights.items()})

    def probability(self, name: str, features: Mapping[str, float]) -> float:
        """Return what a regression (`gap`, `answer`) gives for feature -> value."""
        weights = self.weights[name]
        total = weights[""] + sum(weights[one] * features[one] for one in weights.keys() & features.keys())
        return 1 / (1 + math.exp(-total))


def gap_probability(sentence: str) -> float:
    """Return the probability (0 to 1) that a sentence says that information is missing.

    It is 0 without a negation, and where the sentence opens with a condition.
    """
    tokens = tokens_of(sentence)
    if tokens[:1] in _CONDITIONS or not has_sign(tokens) or is_of_others(tokens):
        return 0.0
    learned = _learned()
    return learned.probability("gap", dict.fromkeys(learned.features["gap"].of(tokens), 1.0))


def answer_probabilities(sentences: Sequence[str], gaps: Sequence[bool]) -> list[float]:
    """Return the probability (0 to 1) of each sentence to give an answer.

    Args:
        sentences: all of a response, in order.
        gaps: whether each says that information is missing; one has to.
    """
    learned = _learned()
    read = Sentences.of(sentences, learned.features["answer"])
    return [learned.probability("answer", features) for features in answer_features(read, gaps)]


def answer_features(read: Sentences, gaps: Sequence[bool]) -> list[dict[str, float]]:
    """Return feature -> value of each sentence: its own, and where it stands beside those that say what is missing."""
    missing = set().union(*(content_of(tokens) for tokens, gap in zip(read.tokens, gaps, strict=True) if gap))
    last = len(gaps) - 1
    first_gap = next((place for place, gap in enumerate(gaps) if gap), len(gaps))
    last_gap = next((place for place in range(last, -1, -1) if gaps[place]), -1)
    found = []
    for place, (tokens, features) in enumerate(zip(read.tokens, read.features, strict=True)):
        content = content_of(tokens)
        found.append(
            {
                **dict.fromkeys(features, 1.0),
                "#gap": float(gaps[place]),
                "#after a gap": float(place > first_gap),
                "#right after a gap": float(place > 0 and gaps[place - 1]),
                "#before a gap": float(place < last_gap),
                "#first": float(place == 0),
                "#last": float(place == last),
                "#question": float(tokens[-1:] == ["?"]),
                "#length": min(len(tokens), _LONG) / _LONG,
                "#about what is missing": len(content & missing) / max(1, len(content)),
                "#sentences": min(last + 1, _MANY) / _MANY,
            }
        )
    return found


@cache
def _learned() -> Learned:
    return Learned.of(json.loads(Path(__file__).with_name("weights.json").read_text("utf-8")))
