"""The suite of a query rewriting model: retrieval with its queries, the last turns and the official rewrites.

If a reply breaks the contract, the last turn is searched, as in a production system, and the reply counts as invalid.
Few questions are labelled as standalone or not: seven in MTRAG's file. First turns always stand alone, so
`unneeded_rewrite` includes them. The scores by label cover later turns, as in the paper's Table 4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from ragtasks.benchmarks import (
    CONDITIONAL_CONTRACT,
    JSON_CONTRACT,
    Contract,
    QuestionClass,
    RewriteReply,
    read_reply,
    retrieval_side,
)
from ragtasks.metrics import (
    COUNT,
    QUERY_METRICS,
    Metric,
    Scores,
    SearchResult,
    is_changed,
    length_ratio,
    query_scores,
    word_count,
)
from ragtasks.records import Qrel, Response, Score, Task
from ragtasks.suites._suite import ScoringInputs, Suite

_OF_QUERY = {
    "": "of the model's queries",
    "_last_turn": "of the unchanged last turns",
    "_official": "of the benchmark's own rewrites",
}
_OF_LABEL = {"_standalone": (True, "that stand alone"), "_non_standalone": (False, "that do not stand alone")}

METRICS = (
    *(
        Metric(name + suffix, f"{measure} {of}, searched by the retriever")
        for suffix, of in _OF_QUERY.items()
        for name, measure in QUERY_METRICS.items()
    ),
    *(
        # Few tasks are labelled, so means by domain or over all domains would suggest more evidence than there is.
        Metric(name + suffix, f"{measure} of the model's queries at later turns {which}, by label", in_groups=False)
        for suffix, (_, which) in _OF_LABEL.items()
        for name, measure in QUERY_METRICS.items()
    ),
    Metric("invalid_reply", "share of replies that break the contract: the last turn is searched", False),
    Metric("length_ratio", "words of the rewrite over words of the last turn; valid replies only", None, bounds=COUNT),
    Metric("unneeded_rewrite", "share of first and labelled standalone turns that were changed", False),
    Metric("reply_words", "words of the whole reply", False, bounds=COUNT),
    Metric("coverage", "share of responses whose query was searched"),
)


def score_rewrites(inputs: ScoringInputs, contract: Contract) -> list[Scores]:
    """Return the scores of each response, in order. Retrieval scores are unscored without a retriever."""
    responses = inputs.responses
    readings = [read_reply(contract, response.text, response.task.question) for response in responses]
    tasks = [response.task for response in responses]
    queries = [reading.query for reading in readings]
    last_turns = [task.question for task in tasks]
    official = [str(task.extra["rewrite"]) for task in tasks]
    search = inputs.search or _no_search
    # One call for all three, so that a text with several uses is searched once.
    scores = query_scores(tasks * len(_OF_QUERY), [*queries, *last_turns, *official], _qrels(inputs), search)
    n = len(tasks)
    return [
        _score(response, reading, scores[index::n])
        for index, (response, reading) in enumerate(zip(responses, readings, strict=True))
    ]


def _no_search(domain: str, texts: Collection[str]) -> SearchResult:
    return SearchResult(None, "no retriever")


def _qrels(inputs: ScoringInputs) -> list[Qrel]:
    side = retrieval_side(inputs.benchmark.name)
    domains = dict.fromkeys(response.task.domain for response in inputs.responses)
    return [qrel for domain in domains for qrel in side.load_qrels(inputs.benchmark.root, domain)]


def _score(response: Response, reading: RewriteReply, scores_by_query: Sequence[Scores]) -> Scores:
    """Return all scores of one response. `scores_by_query` has the order of `_OF_QUERY`."""
    own, language = scores_by_query[0], response.task.language
    scores = {
        name + suffix: score
        for suffix, values in zip(_OF_QUERY, scores_by_query, strict=True)
        for name, score in values.items()
    }
    for suffix, (label, _) in _OF_LABEL.items():
        scores |= {name + suffix: _score_if(_label(response.task) is label, score) for name, score in own.items()}
    return {
        **scores,
        "invalid_reply": Score(float(bool(reading.problem))),
        "length_ratio": _of_valid(reading, length_ratio(reading.query, response.task.question, language)),
        "unneeded_rewrite": _unneeded(response.task, reading),
        "reply_words": Score(float(word_count(response.text, language))),
        "coverage": Score(float(own["ndcg_5"].value is not None)),
    }


def _label(task: Task) -> bool | None:
    """Return whether a later turn is labelled as standalone; None for a first turn and without a label."""
    return task.extra.get("standalone") if task.turn > 1 else None


def _score_if(condition: bool, score: Score) -> Score:
    return score if condition else Score(None, "not labelled so")


def _of_valid(reading: RewriteReply, value: float) -> Score:
    return Score(None, reading.problem) if reading.problem else Score(value)


def _unneeded(task: Task, reading: RewriteReply) -> Score:
    if task.turn > 1 and not _label(task):
        return Score(None, "not known to stand alone")
    return _of_valid(reading, float(is_changed(reading.query, task.question)))


SUITE = Suite(
    metrics=METRICS, score=partial(score_rewrites, contract=JSON_CONTRACT), uses_encoder=False, uses_retriever=True
)


# Conditional rewriting: the same scores, and the words saved by `no_rewrite` replies. The OR-CONVQA paper (section 4.7)
# reports seconds on its own machine. Here, the saved words are those of the official rewrite. Unlike tokens and
# seconds, they depend on neither the model nor the machine.


def _conditional_scores(inputs: ScoringInputs) -> list[Scores]:
    scores = score_rewrites(inputs, CONDITIONAL_CONTRACT)
    return [{**own, **_saved(response)} for own, response in zip(scores, inputs.responses, strict=True)]


def _saved(response: Response) -> Scores:
    task = response.task
    reading = read_reply(CONDITIONAL_CONTRACT, response.text, task.question)
    is_standalone = reading.question_class is QuestionClass.STANDALONE
    return {
        "no_rewrite": Score(float(is_standalone)),
        "saved_words": Score(float(word_count(str(task.extra["rewrite"]), task.language) if is_standalone else 0)),
    }


CONDITIONAL_SUITE = Suite(
    metrics=(
        *METRICS,
        Metric("no_rewrite", "share of replies that say `no_rewrite`", higher_is_better=None),
        Metric(
            "saved_words", "words of the official rewrite where the reply is `no_rewrite`, 0 elsewhere", bounds=COUNT
        ),
    ),
    score=_conditional_scores,
    uses_encoder=False,
    uses_retriever=True,
)
