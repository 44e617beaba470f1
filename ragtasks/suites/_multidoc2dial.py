"""The suite of MultiDoc2Dial and Doc2Dial: overlap with the agent's answer, and accuracy of refusals.

SacreBLEU, METEOR and BERTScore are from the OR-CONVQA paper (Table 6), token F1 and ROUGE-L from the shared task. All
five exclude questions without an answer in the documents, as the official task does. Answerability accuracy includes
all questions. The paper's perplexity is a separate harness task, because it requires a model with likelihoods.
"""

from __future__ import annotations

from ragtasks.metrics import (
    ANSWERABILITY_METRICS,
    PERCENT,
    RESCALED,
    IdkLabel,
    Metric,
    Scores,
    SemanticScore,
    answerability_scores,
    bert_scores,
    corpus_bleu,
    idk_and_empty,
    is_no_answer,
    meteor,
    rouge_l,
    sentence_bleu,
    token_f1,
)
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.suites._added_metrics import diagnosed
from ragtasks.suites._suite import ScoringInputs, Suite

CANNOT_ANSWER = "<cannot_answer>"
"""The reply that the prompt requests if the texts do not answer the question (OR-CONVQA paper, appendix B.3)."""

REFERENCE_REFUSALS = ("Unfortunately, no relevant information is found.",)
"""The refusals of the MultiDoc2Dial agents: always the same sentence."""

LEFT_OUT = "the official task leaves out questions without an answer"

METRICS = (
    Metric("sacrebleu", "SacreBLEU of all answers together, 0 to 100", bounds=PERCENT, aggregate=corpus_bleu),
    Metric("sentence_bleu", "mean SacreBLEU per answer, 0 to 100; not the score in the papers", bounds=PERCENT),
    Metric("meteor", "METEOR with stems and WordNet; unscored without WordNet"),
    Metric("rouge_l", "ROUGE-L F-measure against the reference answer"),
    Metric("token_f1", "F1 of normalised tokens, as in SQuAD"),
    Metric("bert_f1", "BERTScore F1 against the reference answer", bounds=RESCALED),
    Metric("bert_precision", "BERTScore precision against the reference answer", bounds=RESCALED),
    Metric("bert_recall", "BERTScore recall against the reference answer", bounds=RESCALED),
    *ANSWERABILITY_METRICS,
    Metric("cannot_answer", "share of responses that are the token <cannot_answer>", higher_is_better=None),
    Metric("idk_yes", "share of responses that refuse, by the token or in words", higher_is_better=None),
    Metric("empty", "share of responses without any text", higher_is_better=False),
    Metric("coverage", "share of the responses to answerable questions that have METEOR and BERTScore"),
)

_OVERLAPS = ("sacrebleu", "sentence_bleu", "meteor", "rouge_l", "token_f1", "bert_f1", "bert_precision", "bert_recall")


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order."""
    return [_score(*answer, inputs.semantics.reason) for answer in inputs.answers()]


def refusal_label(text: str, label: IdkLabel) -> IdkLabel:
    """Return the refusal label: `yes` for the token alone, `partial` for a text with the token, else `label`."""
    if is_token(text):
        return IdkLabel(IdkVerdict.YES, CANNOT_ANSWER)
    return IdkLabel(IdkVerdict.PARTIAL, CANNOT_ANSWER) if CANNOT_ANSWER in text.lower() else label


def is_token(text: str) -> bool:
    """Return whether a response is only the token, ignoring case, blanks, quotes and a full stop."""
    return text.strip(" \n\t.\"'`").lower() == CANNOT_ANSWER


def _score(response: Response, label: IdkLabel, semantic: SemanticScore | None, reason: str) -> Scores:
    task, refusal = response.task, refusal_label(response.text, label)
    overlaps = _overlaps(response, semantic, reason)
    needed = (overlaps["meteor"], overlaps["bert_f1"])
    is_answerable, is_answer = task.answerability is Answerability.ANSWERABLE, not is_no_answer(response.text)
    return {
        **overlaps,
        **answerability_scores(task.answerability, refusal.verdict, is_answer=is_answer),
        "cannot_answer": Score(float(is_token(response.text))),
        **idk_and_empty(response, refusal),
        "coverage": Score(float(all(overlap.value is not None for overlap in needed)))
        if is_answerable
        else Score(None, LEFT_OUT),
    }


def _overlaps(response: Response, semantic: SemanticScore | None, reason: str) -> Scores:
    text, target = response.text, response.task.target
    if response.task.answerability is not Answerability.ANSWERABLE:
        return {name: Score(None, LEFT_OUT) for name in _OVERLAPS}
    bleu, bert = Score(sentence_bleu(text, target)), bert_scores(semantic, reason)
    return {
        # The metric is corpus BLEU over all scored answers. This value only marks the answer as scored.
        "sacrebleu": bleu,
        "sentence_bleu": bleu,
        "meteor": meteor(text, target),
        "rouge_l": Score(rouge_l(text, target)),
        "token_f1": Score(token_f1(text, target)),
        **{name: bert[name] for name in ("bert_f1", "bert_precision", "bert_recall")},
    }


SUITE = diagnosed(Suite(metrics=METRICS, score=score, known_refusals=REFERENCE_REFUSALS, uses_encoder=True))
