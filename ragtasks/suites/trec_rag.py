"""The suites of TREC RAG: nugget recall, citation support, and metrics without a judge.

An answer is free text with citations in brackets. It is split into sentences as for a submission. With several judges,
each score is the median over the judges with a score. The suite of 2025 adds the coverage of a narrative's parts.

`ragtasks.suites` does not import this module, so other suites load without TREC RAG.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ragtasks.benchmarks.trec_rag import MAX_WORDS
from ragtasks.judges import (
    CITATION_SUPPORT,
    NUGGET_ASSIGNMENT,
    Rubric,
    Verdict,
    Verdicts,
    citation_support,
    nugget_assignment,
    nuggets_of,
)
from ragtasks.metrics import (
    CITATION_METRICS,
    CITED_PRECISION,
    CITED_RECALL,
    COUNT,
    NUGGET_SCORES,
    SUB_NARRATIVE_SCORES,
    SUPPORT_SCORES,
    CitedSentence,
    IdkLabel,
    Metric,
    Scores,
    citation_validity,
    cited_share,
    n_words,
    nugget_scores,
    parse_cited,
    sub_narrative_scores,
)
from ragtasks.records import Grade, IdkVerdict, Response, Score
from ragtasks.suites._added_metrics import (
    SUPPORT,
    citation_scores,
    diagnosed,
    over_judges,
    support_of,
)
from ragtasks.suites._suite import ScoringInputs, Suite


def _judged(rubric: str, **descriptions: str) -> Iterator[Metric]:
    """Yield the metrics of one judged rubric: name -> description."""
    for name, description in descriptions.items():
        yield Metric(name, description, needs_judges=True, rubrics=frozenset({rubric}))


_METRICS = (
    *_judged(
        NUGGET_ASSIGNMENT,
        strict_vital_score="share of the vital nuggets that the answer states in full",
        strict_all_score="share of all nuggets that the answer states in full",
        vital_score="strict_vital_score with partial statements counted half",
        all_score="strict_all_score with partial statements counted half",
        weighted_score="all_score with okay nuggets weighted half",
        strict_weighted_score="weighted_score without partial statements",
    ),
    *SUPPORT,
    CITED_PRECISION,
    CITED_RECALL,
    *CITATION_METRICS,
    Metric("citation_validity", "share of citations that name a passage; unscored without citations"),
    Metric("cited_sentences", "share of sentences that cite a passage; unscored without sentences"),
    Metric("within_length", f"share of answers of at most {MAX_WORDS} words"),
    Metric("response_length", "words, as the track counts them", higher_is_better=None, bounds=COUNT),
    Metric("idk_yes", "share of answers that say that they do not know", higher_is_better=None),
    Metric("empty", "share of answers without a sentence", higher_is_better=False),
    Metric("judge_coverage", "share of requested verdicts that judges gave", needs_judges=True),
)

_SUPPORT_UNJUDGED = Score(None, "support was not judged")


def _rubrics() -> Sequence[Rubric]:
    return [nugget_assignment(), citation_support()]


def _score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order. Judged scores require verdicts."""
    indexes = range(len(inputs.responses))
    answers = [parse_cited(response.text, len(response.passages)) for response in inputs.responses]
    counted = [
        {**citations, **_counted(sentences, label)}
        for citations, sentences, label in zip(citation_scores(inputs), answers, inputs.labels, strict=True)
    ]
    verdicts = inputs.verdicts
    if verdicts is None:
        return counted
    judged = [judged_scores(verdicts, index, answers[index]) for index in indexes]
    return [{**judged[index], **counted[index]} for index in indexes]


def _counted(sentences: Sequence[CitedSentence], label: IdkLabel) -> Scores:
    length = n_words(sentence.text for sentence in sentences)
    return {
        "citation_validity": citation_validity(sentences),
        "cited_sentences": cited_share(sentences),
        "within_length": Score(float(length <= MAX_WORDS)),
        "response_length": Score(float(length)),
        "idk_yes": Score(float(label.verdict is IdkVerdict.YES)) if label.verdict else Score(None, label.reason),
        "empty": Score(float(not sentences)),
    }


def judged_scores(verdicts: Verdicts, index: int, sentences: Sequence[CitedSentence]) -> Scores:
    """Return the judged scores of one response, each the median over the judges with a score."""
    recalls = over_judges(verdicts, index, NUGGET_ASSIGNMENT, NUGGET_SCORES, _nugget_scores)
    supports = (
        over_judges(verdicts, index, CITATION_SUPPORT, SUPPORT_SCORES, partial(support_of, sentences))
        if CITATION_SUPPORT in verdicts.rubrics
        else dict.fromkeys(SUPPORT_SCORES, _SUPPORT_UNJUDGED)
    )
    return {**recalls, **supports, "judge_coverage": Score(verdicts.share_answered(index))}


def _nugget_scores(verdict: Verdict, response: Response) -> Mapping[str, Score]:
    """Return one judge's nugget scores, unscored without a verdict."""
    if verdict.label is None:
        return dict.fromkeys(NUGGET_SCORES, Score(None, f"{verdict.judge}: {verdict.reason}"))
    grades = [Grade(label) for label in json.loads(verdict.label)]
    return nugget_scores([nugget.importance for nugget in nuggets_of(response.task)], grades)


def _score_2025(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order. Judged scores require verdicts."""
    scores, verdicts = _score(inputs), inputs.verdicts
    if verdicts is None:
        return scores
    return [{**own, **judged_part_scores(verdicts, index)} for index, own in enumerate(scores)]


def judged_part_scores(verdicts: Verdicts, index: int) -> Scores:
    """Return the judged scores of the narrative's parts for one response, each the median over the judges."""
    return over_judges(verdicts, index, NUGGET_ASSIGNMENT, SUB_NARRATIVE_SCORES, _over_parts)


def _over_parts(verdict: Verdict, response: Response) -> Mapping[str, Score]:
    """Return one judge's scores of the narrative's parts, unscored without a verdict."""
    if verdict.label is None:
        return dict.fromkeys(SUB_NARRATIVE_SCORES, Score(None, f"{verdict.judge}: {verdict.reason}"))
    return sub_narrative_scores(nuggets_of(response.task), [Grade(label) for label in json.loads(verdict.label)])


TREC_RAG24 = diagnosed(Suite(metrics=_METRICS, score=_score, rubrics=_rubrics, uses_encoder=False))

TREC_RAG25 = diagnosed(
    Suite(
        metrics=(
            *_METRICS,
            *_judged(
                NUGGET_ASSIGNMENT,
                sub_narrative_score="mean over the narrative's parts of their nuggets' all_score",
                sub_narratives_answered="share of the parts with a nugget stated in full",
            ),
        ),
        score=_score_2025,
        rubrics=_rubrics,
        uses_encoder=False,
    )
)
