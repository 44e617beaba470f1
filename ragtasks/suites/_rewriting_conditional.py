"""The suite of conditional rewriting: the rewriting suite, and the words that a reply of one word leaves unwritten.

The OR-CONVQA paper (section 4.7) reports seconds of one machine. Words are counted here: those of the official rewrite,
which a rewriter without this way out would have had to write. Tokens and seconds are a model's and a machine's own.
"""

from __future__ import annotations

from ragtasks.benchmarks import CONDITIONAL_CONTRACT, QuestionClass, read_reply
from ragtasks.metrics import COUNT, Metric, Scores, n_query_words
from ragtasks.records import Response, Score
from ragtasks.suites._rewriting import METRICS as REWRITING_METRICS
from ragtasks.suites._rewriting import score_rewrites
from ragtasks.suites._suite import ScoringInputs, Suite

METRICS = (
    *REWRITING_METRICS,
    Metric("no_rewrite", "share of replies that say `no_rewrite`", higher_is_better=None),
    Metric("saved_words", "words of the official rewrite where the reply is `no_rewrite`, 0 elsewhere", bounds=COUNT),
)
"""Every metric, in the order of the harness's table."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order."""
    scores = score_rewrites(inputs, CONDITIONAL_CONTRACT)
    return [{**own, **_saved(response)} for own, response in zip(scores, inputs.responses, strict=True)]


def _saved(response: Response) -> Scores:
    task = response.task
    reading = read_reply(CONDITIONAL_CONTRACT, response.text, task.question)
    says_so = reading.question_class is QuestionClass.STANDALONE
    return {
        "no_rewrite": Score(float(says_so)),
        "saved_words": Score(float(n_query_words(str(task.extra["rewrite"])) if says_so else 0)),
    }


SUITE = Suite(metrics=METRICS, score=score, uses_encoder=False, uses_retriever=True)
"""What a rewriting model that may decline is scored with."""
