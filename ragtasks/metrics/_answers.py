"""MTRAG's answer metrics: their declarations, and the single pass that computes them.

The pass receives verdicts and semantic scores as arguments, so rescoring needs neither judge nor encoder.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.metrics._answerability import (
    ANSWERABILITY_METRICS,
    NO_VERDICT,
    answerability_scores,
    condition_ibm,
    condition_paper,
)
from ragtasks.metrics._idk_detectors import IdkLabel
from ragtasks.metrics._metric import RESCALED, Metric, Scores
from ragtasks.metrics._no_answer import is_no_answer
from ragtasks.metrics.lexical import rouge_l_batch, token_recall
from ragtasks.metrics.semantic import SemanticScore
from ragtasks.records import Answerability, IdkVerdict, Response, Score

_CONDITIONS = ("idk", "clarification")
_RB_LLM, _RL_F = frozenset({"rb_llm"}), frozenset({"rl_f"})

METRICS = (
    Metric("rb_alg", "harmonic mean of Bert-Recall, ROUGE-L and Bert-K-Precision, IDK-conditioned (paper profile)"),
    Metric("rb_alg_raw", "rb_alg without conditioning"),
    Metric("rb_alg_ibm", "rb_alg as the official scripts compute and condition it (ibm profile)"),
    Metric(
        "rb_llm",
        "median rating by LLM judges divided by 10, IDK-conditioned (paper profile)",
        needs_judges=True,
        rubrics=_RB_LLM.union(_CONDITIONS),
    ),
    Metric("rb_llm_raw", "rb_llm without conditioning", needs_judges=True, in_groups=False, rubrics=_RB_LLM),
    Metric(
        "rb_llm_ibm",
        "rb_llm with the official prompts, parsing and conditioning (ibm profile)",
        needs_judges=True,
        needs_official_prompts=True,
        rubrics=_RB_LLM.union(_CONDITIONS),
    ),
    Metric(
        "rl_f",
        "share of the response's statements that its passages support, by LLM judges, IDK-conditioned",
        needs_judges=True,
        rubrics=_RL_F.union(_CONDITIONS),
    ),
    Metric(
        "rl_f_raw",
        "rl_f without conditioning; unscored without statements",
        needs_judges=True,
        in_groups=False,
        rubrics=_RL_F,
    ),
    Metric(
        "rl_f_ibm",
        "ragas's faithfulness with the official prompts and conditioning (ibm profile)",
        needs_judges=True,
        needs_official_prompts=True,
        rubrics=_RL_F.union(_CONDITIONS),
    ),
    *ANSWERABILITY_METRICS,
    Metric("rouge_l", "ROUGE-L F-measure against the reference answer"),
    Metric("token_recall", "share of the reference answer's words in the response", in_groups=False),
    Metric("bert_recall", "BERTScore recall against the reference answer", bounds=RESCALED, in_groups=False),
    Metric("bert_precision", "BERTScore precision against the reference answer", bounds=RESCALED, in_groups=False),
    Metric(
        "bert_k_precision",
        "largest BERTScore precision against a passage; unscored without passages",
        bounds=RESCALED,
        in_groups=False,
    ),
    Metric("idk_yes", "share of responses that say that they do not know", higher_is_better=None),
    Metric(
        "idk_partial",
        "share of responses that do not know a part of the answer",
        higher_is_better=None,
        in_groups=False,
    ),
    Metric("empty", "share of responses without any text", higher_is_better=False),
    Metric("coverage", "share of responses whose rb_alg is scored"),
    Metric("judge_coverage", "share of requested verdicts that judges gave", needs_judges=True),
)
"""Every metric of a generation task, in the order of the harness's table."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """Semantic scores of a list of responses, or the reason why they are missing."""

    scores: Sequence[SemanticScore] | None
    """One per response; None if they are missing."""
    reason: str = ""
    """Why the scores are missing."""

    def of(self, indexes: Sequence[int]) -> Semantics:
        """Return the semantic scores of selected responses."""
        return self if self.scores is None else Semantics([self.scores[index] for index in indexes], self.reason)


@dataclass(frozen=True, slots=True)
class IbmJudged:
    """Judge scores of one response with the official prompts, parsed as the official scripts do."""

    rb_llm: Score
    rl_f: Score
    idk: IdkVerdict | None
    """Whether the response states that it does not know; None for the scripts' "unknown"."""
    clarification: bool
    """Whether the response asks for clarification; False if not judged."""
    missing: str = ""
    """Why a verdict that conditions the scores is missing; empty if both are present."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Judge scores of all responses; every field has one value per response."""

    rb_llm: Sequence[Score]
    rl_f: Sequence[Score]
    clarifications: Sequence[bool | None]
    """Whether the response asks for clarification; None if not judged or without a verdict."""
    coverage: Sequence[float]
    """Share of the requested verdicts that the judges gave."""
    ibm: Sequence[IbmJudged] | None = None
    """The same in the ibm profile; None unless the judges used the official prompts."""
    is_rl_f_asked: bool = True
    """Whether `rl_f` was judged. If not, it is unscored on every task, also where a refusal alone would decide."""


def score_responses(
    responses: Sequence[Response],
    labels: Sequence[IdkLabel],
    semantics: Semantics,
    *,
    ibm_answerability: Sequence[Answerability | None],
    judged: Judged | None = None,
) -> list[Scores]:
    """Return metric name -> score for each response, in order.

    Args:
        responses: the models' answers.
        labels: one IDK label per response.
        semantics: BERTScore scores, or the reason why they are missing. Without them the scores based on them are
            unscored.
        ibm_answerability: the answerability that the official scripts read; None if they do not read the label.
        judged: judge scores; without them the result has no judged metrics.
    """
    tasks = [response.task for response in responses]
    overlaps = rouge_l_batch(
        [response.text for response in responses], [task.target for task in tasks], [task.language for task in tasks]
    )
    semantic_scores: Sequence[SemanticScore | None] = semantics.scores or [None] * len(responses)
    clarifications = judged.clarifications if judged else [None] * len(responses)
    ibm = judged.ibm if judged and judged.ibm else [None] * len(responses)
    rows = zip(responses, labels, overlaps, semantic_scores, ibm_answerability, clarifications, ibm, strict=True)
    evidence = [_Evidence(*row) for row in rows]
    scores = [_score(inputs, semantics.reason) for inputs in evidence]
    if judged is None:
        return scores
    judged_rows = zip(evidence, judged.rb_llm, judged.rl_f, judged.coverage, strict=True)
    scores = [{**scored, **_judged_scores(*row)} for scored, row in zip(scores, judged_rows, strict=True)]
    return scores if judged.is_rl_f_asked else [{**scored, **_unjudged_rl_f(scored)} for scored in scores]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Inputs of one response's metrics."""

    response: Response
    label: IdkLabel
    rouge_l: float
    semantic: SemanticScore | None
    ibm_answerability: Answerability | None
    clarification: bool | None
    ibm: IbmJudged | None

    @property
    def is_answer(self) -> bool:
        """False for the trace of a failure, such as an error text or a tool call."""
        return not is_no_answer(self.response.text)


def _score(evidence: _Evidence, reason: str) -> Scores:
    """Return the metrics of one response that need no judge."""
    task = evidence.response.task
    rb_alg, bert = _rb_alg(evidence, reason), bert_scores(evidence.semantic, reason)
    return {
        **rb_alg,
        **answerability_scores(task.answerability, evidence.label.verdict, is_answer=evidence.is_answer),
        "rouge_l": Score(evidence.rouge_l),
        "token_recall": Score(token_recall(evidence.response.text, task.target, task.language)),
        **{name: bert[name] for name in ("bert_recall", "bert_precision", "bert_k_precision")},
        "idk_yes": has_verdict(evidence.label, IdkVerdict.YES),
        "idk_partial": has_verdict(evidence.label, IdkVerdict.PARTIAL),
        "empty": Score(float(not evidence.response.text.strip())),
        "coverage": Score(float(rb_alg["rb_alg"].value is not None)),
    }


def _rb_alg(evidence: _Evidence, reason: str) -> Scores:
    """Return RB_alg raw and conditioned, in both profiles.

    Without an encoder all three are unscored, also where a refusal alone would decide: a mean over refusals only does
    not describe the model.
    """
    if evidence.semantic is None:
        return {name: Score(None, reason) for name in ("rb_alg", "rb_alg_raw", "rb_alg_ibm")}
    parts = (evidence.semantic.bert_recall, evidence.rouge_l, evidence.semantic.bert_k_precision)
    return {
        "rb_alg": _conditioned(evidence, Score(rb_alg_raw(*parts))),
        "rb_alg_raw": Score(rb_alg_raw(*parts)),
        "rb_alg_ibm": _conditioned_ibm(evidence, Score(rb_agg_ibm(*parts))),
    }


def _judged_scores(evidence: _Evidence, rb_llm: Score, rl_f: Score, coverage: float) -> Scores:
    """Return the metrics of one response that depend on LLM judges."""
    return {
        "rb_llm": _conditioned(evidence, rb_llm),
        "rb_llm_raw": rb_llm,
        "rl_f": _conditioned(evidence, rl_f),
        "rl_f_raw": rl_f,
        **_ibm_scores(evidence),
        "judge_coverage": Score(coverage),
    }


def _unjudged_rl_f(scores: Scores) -> Scores:
    """Return RL_F as unscored: a mean over refusals only does not describe the model."""
    reason = scores["rl_f_raw"].reason
    return {name: Score(None, reason) for name in ("rl_f", "rl_f_raw", "rl_f_ibm") if name in scores}


def _ibm_scores(evidence: _Evidence) -> Scores:
    if evidence.ibm is None:
        return {}
    return {
        "rb_llm_ibm": _conditioned_ibm(evidence, evidence.ibm.rb_llm),
        "rl_f_ibm": _conditioned_ibm(evidence, evidence.ibm.rl_f),
    }


def _conditioned_ibm(evidence: _Evidence, score: Score) -> Score:
    """Condition a score as the official scripts do, with the official judge's verdicts if there are any."""
    verdict, clarification = evidence.label.verdict, evidence.clarification
    if evidence.ibm is not None:
        if evidence.ibm.missing:
            return Score(None, evidence.ibm.missing)
        verdict, clarification = evidence.ibm.idk, evidence.ibm.clarification
    conditioned = condition_ibm(score.value, evidence.ibm_answerability, verdict, clarification=clarification)
    return conditioned if conditioned.value is not None else Score(None, score.reason or conditioned.reason)


def _conditioned(evidence: _Evidence, score: Score) -> Score:
    verdict = evidence.label.verdict if evidence.is_answer else IdkVerdict.NO
    return condition_paper(score, evidence.response.task.answerability, verdict, clarification=evidence.clarification)


def bert_scores(semantic: SemanticScore | None, reason: str) -> Scores:
    """Return BERTScore F1, precision and recall against the target, and the best precision against a passage."""
    if semantic is None:
        return dict.fromkeys(("bert_f1", "bert_precision", "bert_recall", "bert_k_precision"), Score(None, reason))
    precision, recall, best = semantic.bert_precision, semantic.bert_recall, semantic.bert_k_precision
    total = precision + recall
    return {
        "bert_f1": Score(2 * precision * recall / total if total else 0.0),
        "bert_precision": Score(precision),
        "bert_recall": Score(recall),
        "bert_k_precision": Score(best, "" if best is not None else "no passages"),
    }


def idk_and_empty(response: Response, label: IdkLabel) -> Scores:
    """Return whether a response states that it does not know, and whether it is empty."""
    return {"idk_yes": has_verdict(label, IdkVerdict.YES), "empty": Score(float(not response.text.strip()))}


def has_verdict(label: IdkLabel, verdict: IdkVerdict) -> Score:
    """Return 1 if the label has this verdict, 0 if it has another, unscored without a verdict."""
    if label.verdict is None:
        return Score(None, f"{NO_VERDICT}: {label.reason}")
    return Score(float(label.verdict is verdict))


# RB_alg: one score from three algorithmic scores, as defined in the paper and as computed by the official script.


def rb_alg_raw(bert_recall: float, rouge_l: float, bert_k_precision: float | None) -> float:
    """Return the harmonic mean of (Bert-Recall + 1) / 2, ROUGE-L and (Bert-K-Precision + 1) / 2.

    Bert-Recall measures completeness, Bert-K-Precision (the maximum over the passages) faithfulness, ROUGE-L
    appropriateness. BERTScore's range of -1 to 1 is mapped to 0 to 1. The result is in [0, 1]; higher is better.

    A factor of 0 or less gives 0 (a rescaled BERTScore can be below -1): a harmonic mean is defined for positive
    numbers and tends to 0 with the smallest. No passages (`bert_k_precision` None) give 0, as in the official script,
    since nothing can support the answer. Unanswerable tasks do not use this score.

    Source: MTRAG paper, section 6.3.1; `run_algorithmic.py`, RB_agg, at commit cc5b1d4.
    """
    factors = _factors(bert_recall, rouge_l, bert_k_precision)
    return 0.0 if min(factors) <= 0 else _harmonic_mean(factors)


def rb_agg_ibm(bert_recall: float, rouge_l: float, bert_k_precision: float | None) -> float:
    """Return RB_agg as the official script computes it; differs from `rb_alg_raw` only if a factor is negative.

    The script tests for exactly 0, so a slightly negative factor passes and gives a negative or a very large score.

    Source: `run_algorithmic.py` at commit cc5b1d4.
    """
    factors = _factors(bert_recall, rouge_l, bert_k_precision)
    return 0.0 if 0 in factors else _harmonic_mean(factors)


def _factors(bert_recall: float, rouge_l: float, bert_k_precision: float | None) -> tuple[float, float, float]:
    faithfulness = 0.0 if bert_k_precision is None else (bert_k_precision + 1) / 2
    return (bert_recall + 1) / 2, rouge_l, faithfulness


def _harmonic_mean(factors: tuple[float, ...]) -> float:
    reciprocals = sum(1 / factor for factor in factors)
    return len(factors) / reciprocals if reciprocals else 0.0


# Accuracy of short answers (MultiHop-RAG), in two versions. The official script accepts an answer that shares any word
# with the reference answer. `accuracy` requires the same answer: it extracts the answer from the reply, and compares
# without case, punctuation and articles.

INSUFFICIENT = "insufficient information"
"""Normalized reference answer of a null query; the prompt requests this phrase."""

_OFFICIAL = re.compile(r'The answer to the question is "(.*?)"')
_ANNOUNCED = re.compile(
    r"\banswer(?:\s+to\s+(?:the|this|your)\s+(?:question|query))?\s*(?:\bis\b\s*:?|:)\s*(?=\S)", re.IGNORECASE
)
# Bold marks and quotes may follow the word before the end of the clause.
_ONE_WORD = re.compile(
    r"\W*(yes|no|before|after)\b(?=[*_\"'\u2019\u201d]*\s*(?:$|[.,;:!)\u2013\u2014]|-\s))", re.IGNORECASE
)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TO_BLANK = str.maketrans(dict.fromkeys(f"{string.punctuation}\u2018\u2019\u201c\u201d\u2013\u2014", " "))
_INSIDE_WORDS = str.maketrans("", "", "'\u2019.")


def accuracy_official(reply: str, target: str) -> float:
    """Return 1 if the reply shares a word with the reference answer, else 0, as the official script does.

    Words are separated by whitespace, in lower case, punctuation included. If the reply contains the script's fixed
    phrase, only the quoted text after it counts. Resulting quirks, each with a test: "the Guardian" is right for "The
    Verge", "Yes." is wrong for "Yes", and a refusal in other words is wrong on a null query.

    Source: yixuantt/MultiHop-RAG, qa_evaluate.py, commit 3dd4d4e. The precision, recall and F1 that it prints are all
    the mean of this value, the accuracy of the paper's Table 6. The value that it prints as accuracy is wrong.
    """
    match = _OFFICIAL.search(reply)
    words = (match[1] if match else reply).lower().split()
    return float(not set(words).isdisjoint(target.lower().split()))


def accuracy(reply: str, target: str) -> float:
    """Return 1 if the answer in the reply (`answer_in`) equals the reference answer, both normalized, else 0.

    A reference answer without a letter or digit never matches.
    """
    wanted = normalised(target)
    return float(bool(wanted) and normalised(answer_in(reply)) == wanted)


def null_accuracy(reply: str, label: IdkLabel) -> Score:
    """Return 1 if a reply states that the query has no answer, else 0; unscored if the detector gave no verdict.

    A reply that begins with `INSUFFICIENT` scores 1 whatever the detector's verdict. A partial refusal scores 0.
    """
    if normalised(answer_in(reply)).startswith(INSUFFICIENT):
        return Score(1.0)
    return has_verdict(label, IdkVerdict.YES)


def answer_in(reply: str) -> str:
    """Return the answer in a reply, without looking at the reference answer.

    The answer is the rest of the line after the last announcement ("The answer is ..."), or else the first line. If it
    begins with yes, no, before or after as a clause of its own, only that word is returned.
    """
    announced = list(_ANNOUNCED.finditer(reply))
    text = reply[announced[-1].end() :] if announced else reply.strip()
    line = text.partition("\n")[0]
    word = _ONE_WORD.match(line)
    return word[1] if word else line.strip()


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single spaces."""
    plain = text.lower().translate(_INSIDE_WORDS).translate(_TO_BLANK)
    return " ".join(_ARTICLES.sub(" ", plain).split())
