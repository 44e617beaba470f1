"""MTRAG's suite with the scores of a benchmark's own paper beside it: CORAL, FaithDial, INSCIT, LiveRAG, TopiOCQA."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from ragtasks.benchmarks.coral import without_citations
from ragtasks.benchmarks.inscit import passage_id
from ragtasks.benchmarks.topiocqa import UNANSWERABLE
from ragtasks.judges import (
    LIVERAG_CORRECTNESS,
    LIVERAG_FAITHFULNESS,
    LIVERAG_POINTS,
    Rubric,
    liverag_correctness,
    liverag_faithfulness,
)
from ragtasks.metrics import (
    PERCENT,
    RESCALED,
    IdkLabel,
    Metric,
    Pair,
    Scores,
    SemanticScore,
    bert_scores,
    corpus_bleu,
    exact_match,
    parse_cited,
    token_f1,
)
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._suite import ScoringInputs, extended

# CORAL: MTRAG's scores of the answer without its citations, BLEU, and the citations (Cheng et al. 2025). The official
# repository has no evaluation script. Citations are compared by passage with those of the reference answer: what an
# answer cites as `[2]` is the second passage that the model was shown.


def coral_bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all answers together, without their citations."""
    return corpus_bleu((without_citations(text), targets) for text, targets in pairs)


CORAL_METRICS = (
    Metric("sacrebleu", "SacreBLEU of all answers together, 0 to 100", bounds=PERCENT, aggregate=coral_bleu),
    Metric("citation_precision", "share of the cited passages that the reference answer cites; 0 for no citation"),
    Metric("citation_recall", "share of the passages that the reference answer cites which the answer cites"),
)


def coral_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what CORAL adds of each response, in order."""
    return [_coral_score(response) for response in inputs.responses]


def _coral_score(response: Response) -> Scores:
    cited, gold = cited_passages(response), set(response.task.extra["cited"])
    shared = len(cited & gold)
    scores = {
        "citation_precision": Score(shared / len(cited) if cited else 0.0),
        "citation_recall": Score(shared / len(gold)) if gold else Score(None, ""),
    }
    if not gold:
        scores = dict.fromkeys(scores, Score(None, "the reference answer cites no passage"))
    # The score is made of all answers; this value only says that the answer is among them.
    return {"sacrebleu": Score(token_f1(without_citations(response.text), response.task.target)), **scores}


def cited_passages(response: Response) -> set[str]:
    """Return the ids of the passages that an answer cites by their numbers."""
    sentences = parse_cited(response.text, len(response.passages))
    return {response.passages[place].passage_id for sentence in sentences for place in sentence.citations}


def _score_text(inputs: ScoringInputs) -> list[Scores]:
    plain = [replace(response, text=without_citations(response.text)) for response in inputs.responses]
    return MTRAG.score(replace(inputs, responses=plain))


CORAL = extended(replace(MTRAG, score=_score_text), CORAL_METRICS, coral_scores)


# FaithDial's suite: MTRAG's scores, and those of its paper that need no trained critic (Dziri et al. 2022).

FAITHDIAL_METRICS = (
    Metric("sacrebleu", "SacreBLEU of all replies together, 0 to 100", bounds=PERCENT, aggregate=corpus_bleu),
    Metric("k_f1", "F1 of the normalised tokens of reply and knowledge; the paper's leaves out stop words"),
    Metric("bert_f1", "BERTScore F1 against the reference reply", bounds=RESCALED),
)
"""What FaithDial has beyond MTRAG's metrics, whose `rouge_l` and `bert_k_precision` its paper has too."""


def faithdial_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what FaithDial adds of each response, in order."""
    return [
        {
            # The score is made of all replies; this value only says that the reply is among them.
            "sacrebleu": Score(token_f1(response.text, response.task.target)),
            "k_f1": Score(token_f1(response.text, response.task.extra["knowledge"])),
            "bert_f1": bert_scores(found, inputs.semantics.reason)["bert_f1"],
        }
        for response, _, found in inputs.answers()
    ]


FAITHDIAL = extended(MTRAG, FAITHDIAL_METRICS, faithdial_scores)


# INSCIT's suite: MTRAG's scores, and those that its paper reports (Wu et al. 2023, section 5).
#
# Where two people labelled a turn, each score is the better of the two; corpus BLEU has both as references.


def inscit_bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all responses against all their references, as the official script computes it.

    Source: `eval/eval.py` at 2319fb8, which puts texts in lower case and single blanks first.
    """
    return corpus_bleu((_plain(text), tuple(map(_plain, targets))) for text, targets in pairs)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


INSCIT_METRICS = (
    Metric(
        "sacrebleu", "SacreBLEU of all answers together, 0 to 100, lower case", bounds=PERCENT, aggregate=inscit_bleu
    ),
    Metric("token_f1", "F1 of normalised tokens, as in SQuAD; the official script cuts words with spaCy first"),
    Metric("bert_f1", "BERTScore F1 against the reference answer", bounds=RESCALED),
    Metric("response_type", "share of responses of the labelled type: answer, part of one, question back, refusal"),
    Metric("passage_f1", "F1 of the passages that the answer had, by those that the label rests on"),
)


def inscit_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what INSCIT adds of each response, in order."""
    return [_inscit_score(*answer, inputs.semantics.reason) for answer in inputs.answers()]


def _inscit_score(response: Response, label: IdkLabel, semantic: SemanticScore | None, reason: str) -> Scores:
    found = response_type(response.text, label)
    overlap = token_f1(response.text, response.task.target)
    return {
        "sacrebleu": Score(overlap),  # the score is made of all answers; this only says that the answer is among them
        "token_f1": Score(overlap),
        "bert_f1": bert_scores(semantic, reason)["bert_f1"],
        "response_type": Score(float(found is response.task.answerability)) if found else Score(None, label.reason),
        "passage_f1": Score(_passage_f1(response)),
    }


def response_type(text: str, label: IdkLabel) -> Answerability | None:
    """Return what a response takes its question for, None where nobody can tell whether it refuses.

    A response that ends in a question asks back; else the refusal label decides.
    """
    if text.rstrip().endswith("?"):
        return Answerability.UNDERSPECIFIED
    types = {
        IdkVerdict.YES: Answerability.UNANSWERABLE,
        IdkVerdict.PARTIAL: Answerability.PARTIAL,
        IdkVerdict.NO: Answerability.ANSWERABLE,
    }
    return types[label.verdict] if label.verdict else None


def _passage_f1(response: Response) -> float:
    """Return the largest F1 over the labels' passages; 0 where none is shared, also where a label has none.

    Source: `eval_evidence_passages` of `eval/eval.py` at 2319fb8, over 100.
    """
    given = {passage_id(passage.passage_id) for passage in response.passages}
    labels = [set(ids) for ids in response.task.extra["evidence"]]
    return max(2 * len(given & ids) / (len(given) + len(ids)) if given & ids else 0.0 for ids in labels)


INSCIT = extended(MTRAG, INSCIT_METRICS, inscit_scores)


# LiveRAG's suite: MTRAG's scores, and the challenge's two by judges, in our words (Carmel et al. 2025, section 4).
#
# Correctness goes from -1 to 2, faithfulness from -1 to 1. The challenge's own prompts and judge are not public, so
# its leaderboard is another scale.

LIVERAG_METRICS = tuple(
    Metric(name, f"{description}, by LLM judges", needs_judges=True, bounds=(low, high), rubrics=frozenset({name}))
    for name, description, low, high in (
        (LIVERAG_CORRECTNESS, "2 correct, 1 correct with what is beside the point, 0 no answer, -1 wrong", -1, 2),
        (LIVERAG_FAITHFULNESS, "1 all of it, 0 a part of it, -1 nothing of it from the passages", -1, 1),
    )
)


def liverag_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what LiveRAG adds of each response, in order: nothing where nobody was asked."""
    verdicts = inputs.verdicts
    if verdicts is None:
        return [{} for _ in inputs.responses]
    columns = {name: [_in_points(name, score) for score in verdicts.scores(name)] for name in LIVERAG_POINTS}
    return [{name: scores[index] for name, scores in columns.items()} for index in range(len(inputs.responses))]


def _in_points(rubric: str, score: Score) -> Score:
    low, high = min(LIVERAG_POINTS[rubric].values()), max(LIVERAG_POINTS[rubric].values())
    return score if score.value is None else Score(low + score.value * (high - low))


def liverag_rubrics() -> Sequence[Rubric]:
    """Return what judges are asked."""
    return [*MTRAG.rubrics(), liverag_correctness(), liverag_faithfulness()]


LIVERAG = extended(MTRAG, LIVERAG_METRICS, liverag_scores, rubrics=liverag_rubrics)


# TopiOCQA's suite: MTRAG's scores, and exact match and F1 as its paper reports them (Adlakha et al. 2022, 5.2).
#
# MTRAG's scores take the best of several answers. The official ones do not: see `official_scores`.

TOPIOCQA_METRICS = (
    Metric("em", "exact match as officially scored: with several answers, the mean of leaving each out in turn"),
    Metric("f1", "F1 of normalised tokens as officially scored: with several answers, the mean of leaving each out"),
    Metric("em_best", "exact match with the best of several answers"),
    Metric("f1_best", "F1 of normalised tokens with the best of several answers"),
)


def topiocqa_scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what TopiOCQA adds of each response, in order."""
    return [_topiocqa_score(response.text, response.task.extra["answers"]) for response in inputs.responses]


def _topiocqa_score(text: str, answers: Sequence[str]) -> Scores:
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


TOPIOCQA = extended(MTRAG, TOPIOCQA_METRICS, topiocqa_scores, known_refusals=(UNANSWERABLE,))
