"""FaithDial's suite: MTRAG's scores, and those of its paper that need no trained critic (Dziri et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.metrics import PERCENT, RESCALED, Metric, Scores, SemanticScore, corpus_bleu, token_f1
from ragtasks.records import Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._multidoc2dial import bert_scores
from ragtasks.suites._suite import ScoringInputs, extended

METRICS = (
    Metric("sacrebleu", "SacreBLEU of all replies together, 0 to 100", bounds=PERCENT, aggregate=corpus_bleu),
    Metric("k_f1", "F1 of the normalised tokens of reply and knowledge; the paper's leaves out stop words"),
    Metric("bert_f1", "BERTScore F1 against the reference reply", bounds=RESCALED),
)
"""What FaithDial has beyond MTRAG's metrics, whose `rouge_l` and `bert_k_precision` its paper has too."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return what FaithDial adds of each response, in order."""
    semantics: Sequence[SemanticScore | None] = inputs.semantics.scores or [None] * len(inputs.responses)
    return [
        {
            # The score is made of all replies; this value only says that the reply is among them.
            "sacrebleu": Score(token_f1(response.text, response.task.target)),
            "k_f1": Score(token_f1(response.text, response.task.extra["knowledge"])),
            "bert_f1": bert_scores(found, inputs.semantics.reason)["bert_f1"],
        }
        for response, found in zip(inputs.responses, semantics, strict=True)
    ]


SUITE = extended(MTRAG, METRICS, score)
"""What FaithDial is scored with."""
