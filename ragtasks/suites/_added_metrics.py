"""Metrics that are added to a suite: diagnostics for most suites, and further metrics by name.

The diagnostics do not rank models: grounding in the passages, copied text, citations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from ragtasks.judges import (
    CITATION_SUPPORT,
    CLARIFICATION,
    CONTEXT_PRECISION,
    CONTEXT_RECALL,
    IDK,
    RL_F_CONVERSATION,
    RL_MTB,
    RL_R,
    Rubric,
    Verdict,
    VerdictOutcome,
    Verdicts,
    citation_support,
    rubrics_named,
)
from ragtasks.metrics import (
    CITATION_METRICS,
    CITED_PRECISION,
    CITED_RECALL,
    COPIED,
    COUNT,
    GROUNDED,
    KIND_METRICS,
    SUPPORT_SCORES,
    CitationKind,
    CitedSentence,
    Metric,
    Scores,
    cited_sentences,
    condition_paper,
    copied,
    extractiveness,
    ground,
    grounded,
    judged_kinds,
    k_precision,
    kind_scores,
    support_scores,
)
from ragtasks.records import Response, Score, Support
from ragtasks.suites._suite import ScoringInputs, Suite, SuiteMetric, extended, verdict_scores


def diagnosed(suite: Suite) -> Suite:
    """Return a suite with the diagnostics `grounded` and `copied` after its metrics."""
    return extended(
        suite,
        (GROUNDED, COPIED),
        lambda inputs: list(map(_diagnosis, inputs.responses)),
        official_rubrics=suite.official_rubrics,
    )


def _diagnosis(response: Response) -> Scores:
    share = grounded(response.text, response.passages)
    if share is None:
        missing = Score(None, "the answer has no content words" if response.passages else "no passages")
        return {GROUNDED.name: missing, COPIED.name: missing}
    return {GROUNDED.name: Score(share), COPIED.name: Score(copied(response.text, response.passages))}


def citation_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return precision, recall and kinds of the citations of each response, in order.

    Words decide, and the judges' labels of first citations decide their kind.
    """
    verdicts = inputs.verdicts
    by_words = [_citation_scores(response) for response in inputs.responses]
    if verdicts is None or CITATION_SUPPORT not in verdicts.rubrics:
        return by_words
    judged = partial(over_judges, verdicts, rubric=CITATION_SUPPORT, names=_JUDGED_KINDS, scores_of=_judged_kind_scores)
    return [{**scores, **judged(index=index)} for index, scores in enumerate(by_words)]


def _citation_scores(response: Response, levels: Sequence[Support | None] = ()) -> Scores:
    """Return precision, recall and kinds of one answer's citations.

    `levels` are a judge's labels of the sentences, which are ignored if its sentences are not those of the grounding.
    """
    grounding = ground(response.text, response.passages)
    labels = levels if len(levels) == len(grounding.sentences) else [None] * len(grounding.sentences)
    kinds = [judged_kinds(*pair) for pair in zip((s.kinds for s in grounding.sentences), labels, strict=True)]
    reason = "no sentence cites" if grounding.sentences else "the answer has no sentence"
    values = {CITED_PRECISION.name: grounding.citation_precision, CITED_RECALL.name: grounding.citation_recall}
    by_words = {name: Score(value, "" if value is not None else reason) for name, value in values.items()}
    return {**by_words, **kind_scores(kinds, len(grounding.uncited))}


def _citation_metric(metric: Metric) -> SuiteMetric:
    def score(inputs: ScoringInputs) -> Sequence[Score]:
        return [scores[metric.name] for scores in citation_scores(inputs)]

    return SuiteMetric(metric, score)


CITED_PRECISION_BY_NAME, CITED_RECALL_BY_NAME = _citation_metric(CITED_PRECISION), _citation_metric(CITED_RECALL)
RIGHT, OTHER_PASSAGE, UNSUPPORTED, INVENTED, MISSING, N_CITED, N_CITING = map(_citation_metric, CITATION_METRICS)


# Judged citation support for any benchmark with citations: `--metrics support_precision --metrics support_recall`.

SUPPORT = tuple(
    Metric(name, f"support by first citations, {of}, judged", needs_judges=True, rubrics=frozenset({CITATION_SUPPORT}))
    for name, of in zip(SUPPORT_SCORES, ("over sentences with citations", "over all sentences"), strict=True)
)


def over_judges(
    verdicts: Verdicts,
    index: int,
    rubric: str,
    names: Sequence[str],
    scores_of: Callable[[Verdict, Response], Mapping[str, Score]],
) -> dict[str, Score]:
    """Return score name -> median over the judges with this score, for one response."""
    response = verdicts.responses[index]
    scores_by_judge = [scores_of(verdicts.verdict(index, rubric, judge), response) for judge in verdicts.judges]
    return {name: _median([scores[name] for scores in scores_by_judge]) for name in names}


def support_of(sentences: Sequence[CitedSentence], verdict: Verdict, _: Response) -> Mapping[str, Score]:
    """Return the support scores from one judge. An answer without citations needs no verdict."""
    cites = [bool(sentence.citations) for sentence in sentences]
    if missing := _missing(verdict):
        return dict.fromkeys(SUPPORT_SCORES, missing)
    return support_scores(cites, _levels(verdict) or [None] * len(sentences))


_JUDGED_KINDS = [metric.name for kind, metric in KIND_METRICS.items() if kind is not CitationKind.MISSING]


def _judged_kind_scores(verdict: Verdict, response: Response) -> Mapping[str, Score]:
    """Return the kinds of a response's citations by one judge."""
    if missing := _missing(verdict):
        return dict.fromkeys(_JUDGED_KINDS, missing)
    return _citation_scores(response, _levels(verdict))


def _missing(verdict: Verdict) -> Score | None:
    """Return the reason of scores without a verdict; None if there is one, or if none was needed."""
    is_missing = verdict.label is None and verdict.outcome is not VerdictOutcome.NOT_ASKED
    return Score(None, f"{verdict.judge}: {verdict.reason}") if is_missing else None


def _levels(verdict: Verdict) -> list[Support | None]:
    """Return the support of each sentence by its first citation; [] without a verdict."""
    return [Support(label) if label else None for label in json.loads(verdict.label or "[]")]


def _median(scores: Sequence[Score]) -> Score:
    values = [score.value for score in scores if score.value is not None]
    if values:
        return Score(median(values))
    return Score(None, "; ".join(dict.fromkeys(score.reason for score in scores)))


def _cited_sentences(response: Response) -> tuple[CitedSentence, ...]:
    return cited_sentences(response.text, response.passages)


def _support_metric(metric: Metric) -> SuiteMetric:
    def score(inputs: ScoringInputs) -> Sequence[Score]:
        assert inputs.verdicts is not None
        scores = []
        for index, response in enumerate(inputs.responses):
            support = partial(support_of, _cited_sentences(response))
            scores.append(over_judges(inputs.verdicts, index, CITATION_SUPPORT, SUPPORT_SCORES, support)[metric.name])
        return scores

    return SuiteMetric(metric, score, rubrics=lambda: [citation_support(_cited_sentences)])


SUPPORT_PRECISION, SUPPORT_RECALL = map(_support_metric, SUPPORT)


# Optional metrics from the papers; `--metadata '{"metrics": ["rl_mtb"]}'` adds them to a suite.
#
# Judged metrics cost one or two requests per answer, so none is computed by default.


def _conditioned(rubric: str, inputs: ScoringInputs) -> Sequence[Score]:
    """Return the judged scores, conditioned on refusals like all metrics of the paper's Table 7."""
    assert inputs.verdicts is not None
    has_clarifications = CLARIFICATION in inputs.verdicts.rubrics
    clarifications = inputs.verdicts.clarifications() if has_clarifications else [None] * len(inputs.responses)
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


def _passage_scores(
    compare: Callable[[str, Sequence[str], str], float | None], inputs: ScoringInputs
) -> Sequence[Score]:
    values = [
        compare(response.text, [passage.text for passage in response.passages], response.task.language)
        for response in inputs.responses
    ]
    return [Score(value, "" if value is not None else "no passages") for value in values]


EXTRACTIVENESS = SuiteMetric(
    Metric(
        "extractiveness",
        "1 if the answer contains a passage, else its ROUGE-L; maximum over passages, as in the official scripts",
        higher_is_better=None,
    ),
    partial(_passage_scores, extractiveness),
)
LENGTH = SuiteMetric(
    Metric("length", "characters of the answer, as the official scripts count", higher_is_better=None, bounds=COUNT),
    lambda inputs: [Score(float(len(response.text))) for response in inputs.responses],
)
K_PRECISION = SuiteMetric(
    Metric("k_precision", "share of the answer's words that its passages contain; unscored without passages"),
    partial(_passage_scores, k_precision),
)
