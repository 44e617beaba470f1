"""Metrics of the papers that no table of ours has by itself; `--metadata '{"metrics": ["rl_mtb"]}'` adds them.

Those that judges decide cost one or two requests an answer, so nobody pays for them unasked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ragtasks.judges import (
    CLARIFICATION,
    CONTEXT_PRECISION,
    CONTEXT_RECALL,
    IDK,
    PREDICTED,
    RL_F_CONVERSATION,
    RL_MTB,
    RL_R,
    TARGETS,
    Rubric,
    rubrics_named,
)
from ragtasks.languages import language_in
from ragtasks.metrics import COUNT, Metric, condition_paper, extractiveness, k_precision
from ragtasks.records import Score
from ragtasks.suites._suite import ScoringInputs, SuiteMetric, verdict_scores


def _conditioned(rubric: str, inputs: ScoringInputs) -> Sequence[Score]:
    """Return a judged score conditioned on refusals, as the paper's Table 7 has all its metrics."""
    assert inputs.verdicts is not None
    asked = CLARIFICATION in inputs.verdicts.rubrics
    clarifications = inputs.verdicts.clarifications() if asked else [None] * len(inputs.responses)
    rows = zip(verdict_scores(rubric, inputs), inputs.responses, inputs.labels, clarifications, strict=True)
    return [
        condition_paper(score, response.task.answerability, label.verdict, clarification=clarification)
        for score, response, label, clarification in rows
    ]


def _judged(name: str, rubric: str, description: str, *, is_conditioned: bool = False) -> SuiteMetric:
    def rubrics() -> Sequence[Rubric]:
        return rubrics_named([rubric])

    score = partial(_conditioned if is_conditioned else verdict_scores, rubric)
    needed = {rubric, IDK, CLARIFICATION} if is_conditioned else {rubric}
    return SuiteMetric(Metric(name, description, needs_judges=True, rubrics=frozenset(needed)), score, rubrics=rubrics)


_MTB = "rating of the last answer without a reference by LLM judges over 10 (MTRAG paper, Table 7)"
_R = "share of questions derived from the answer that ask what the user asked, by LLM judges (MTRAG paper, Table 7)"

MTB = _judged("rl_mtb", RL_MTB, f"{_MTB}, IDK-conditioned", is_conditioned=True)
MTB_RAW = _judged("rl_mtb_raw", RL_MTB, f"{_MTB}, not conditioned")
RELEVANCE = _judged("rl_r", RL_R, f"{_R}, IDK-conditioned", is_conditioned=True)
RELEVANCE_RAW = _judged("rl_r_raw", RL_R, f"{_R}, not conditioned")
_F = "share of the response's statements that its passages or earlier turns support, by LLM judges"
CONVERSATION = _judged("rl_f_conversation", RL_F_CONVERSATION, f"{_F}, IDK-conditioned", is_conditioned=True)
CONVERSATION_RAW = _judged("rl_f_conversation_raw", RL_F_CONVERSATION, f"{_F}, not conditioned")
PRECISION = _judged(
    "context_precision", CONTEXT_PRECISION, "average precision of the passages by those that LLM judges find useful"
)
RECALL = _judged(
    "context_recall", CONTEXT_RECALL, "share of the reference answer's statements that the passages support, judged"
)


def _extractiveness(inputs: ScoringInputs) -> Sequence[Score]:
    found = [
        extractiveness(item.text, [passage.text for passage in item.passages], language_in(item.task))
        for item in inputs.responses
    ]
    return [Score(value, "" if value is not None else "no passages") for value in found]


def _k_precision(inputs: ScoringInputs) -> Sequence[Score]:
    found = [
        k_precision(item.text, [passage.text for passage in item.passages], language_in(item.task))
        for item in inputs.responses
    ]
    return [Score(value, "" if value is not None else "no passages") for value in found]


def _length(inputs: ScoringInputs) -> Sequence[Score]:
    return [Score(float(len(item.text))) for item in inputs.responses]


EXTRACTIVENESS = SuiteMetric(
    Metric(
        "extractiveness",
        "how far the answer holds a passage whole, else its ROUGE-L; largest over passages, as the official scripts",
        higher_is_better=None,
    ),
    _extractiveness,
)
LENGTH = SuiteMetric(
    Metric("length", "characters of the answer, as the official scripts count", higher_is_better=None, bounds=COUNT),
    _length,
)
K_PRECISION = SuiteMetric(
    Metric("k_precision", "share of the answer's words that its passages hold; unscored without passages"), _k_precision
)


# What a combination of scores predicts that people would say; its file is applied to the scores of the whole suite.


def _unpredicted(inputs: ScoringInputs) -> Sequence[Score]:
    return [Score(None, "no combination is named: --combination FILE")] * len(inputs.responses)


def _predicted(name: str) -> SuiteMetric:
    low, high = TARGETS[name]
    what = "mean of the four properties" if name == "all" else name.replace("_", " ")
    text = f"people's {what}, {low:g} to {high:g}, as a combination of scores predicts it"
    return SuiteMetric(Metric(PREDICTED + name, text, needs_judges=True, bounds=(low, high)), _unpredicted)


PREDICTED_ALL = _predicted("all")
PREDICTED_FAITHFULNESS = _predicted("faithfulness")
PREDICTED_COMPLETENESS = _predicted("completeness")
PREDICTED_WIN_RATE = _predicted("win_rate")
