"""MTRAGEval's ranking score: one number for a system's answers.

Source: MTRAGEval (SemEval-2026 task 8), tasks B and C: the harmonic mean of the three dataset means RL_F, RB_llm and
RB_alg, each conditioned on answerability.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from ragtasks.records import Score

RANKED_BY = ("rl_f", "rb_llm", "rb_alg")
"""The three means."""


def ranking_score(means: Mapping[str, Score]) -> Score:
    """Return the harmonic mean of three dataset means: 0 to 1, higher is better; 0 where one of them is 0.

    Unscored, with the names, where one of them is missing or unscored: two of three are another score.

    Args:
        means: metric -> mean over the dataset, for the names in `RANKED_BY`; others are ignored.
    """
    values = {name: means[name].value if name in means else None for name in RANKED_BY}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        return Score(None, f"no mean of {', '.join(missing)}")
    found = [value for value in values.values() if value is not None]
    if min(found) < 0:
        return Score(None, "a mean below 0 has no harmonic mean")
    return Score(statistics.harmonic_mean(found))


__all__ = ["RANKED_BY", "ranking_score"]
