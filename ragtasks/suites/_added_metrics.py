"""Metrics beside a suite's own: what an answer's words say of it, which most suites have, and others by name.

The first rank nobody: how much of an answer its passages hold, how much is copied, what it cites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from ragtasks.metrics import (
    CITED_PRECISION,
    CITED_RECALL,
    COPIED,
    COUNT,
    GROUNDED,
    Metric,
    Scores,
    condition_paper,
    copied,
    extractiveness,
    ground,
    grounded,
    k_precision,
)
from ragtasks.records import Response, Score
from ragtasks.suites._suite import ScoringInputs, Suite, SuiteMetric, extended, verdict_scores


def diagnosed(suite: Suite) -> Suite:
    """Return a suite with `grounded` and `copied` behind its metrics; they rank nobody."""
    return extended(suite, (GROUNDED, COPIED), _diagnoses, official_rubrics=suite.official_rubrics)


def _diagnoses(inputs: ScoringInputs) -> list[Scores]:
    # Settings of a task share passages: side by side these are read once.
    responses = inputs.responses
    order = sorted(range(len(responses)), key=lambda place: responses[place].task.task_id)
    found = {place: _diagnosis(responses[place]) for place in order}
    return [found[place] for place in range(len(responses))]


def _diagnosis(response: Response) -> Scores:
    share = grounded(response.text, response.passages, response.task.question)
    if share is None:
        missing = Score(None, "the answer has no content words" if response.passages else "no passages")
        return {GROUNDED.name: missing, COPIED.name: missing}
    runs = copied(response.text, [passage.text for passage in response.passages])
    return {GROUNDED.name: Score(share), COPIED.name: Score(runs)}


def supported_by_words(response: Response) -> Scores:
    """Return precision and recall of an answer's citations by the words of what they cite."""
    found = ground(response.text, response.passages, [response.task.question])
    why = "no sentence cites" if found.sentences else "the answer has no sentence"
    values = {CITED_PRECISION.name: found.citation_precision, CITED_RECALL.name: found.citation_recall}
    return {name: Score(value, "" if value is not None else why) for name, value in values.items()}


def _by_name(metric: Metric) -> SuiteMetric:
    def score(inputs: ScoringInputs) -> Sequence[Score]:
        return [supported_by_words(response)[metric.name] for response in inputs.responses]

    return SuiteMetric(metric, score)


CITED_PRECISION_BY_NAME, CITED_RECALL_BY_NAME = _by_name(CITED_PRECISION), _by_name(CITED_RECALL)


# Metrics of the papers that no table of ours has by itself; `--metadata '{"metrics": ["rl_mtb"]}'` adds them.
#
# Those that judges decide cost one or two requests an answer, so nobody pays for them unasked.


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


def _by_passages(compare: Callable[[str, Sequence[str], str], float | None], inputs: ScoringInputs) -> Sequence[Score]:
    found = [
        compare(item.text, [passage.text for passage in item.passages], item.task.language) for item in inputs.responses
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
    partial(_by_passages, extractiveness),
)
LENGTH = SuiteMetric(
    Metric("length", "characters of the answer, as the official scripts count", higher_is_better=None, bounds=COUNT),
    _length,
)
K_PRECISION = SuiteMetric(
    Metric("k_precision", "share of the answer's words that its passages hold; unscored without passages"),
    partial(_by_passages, k_precision),
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
