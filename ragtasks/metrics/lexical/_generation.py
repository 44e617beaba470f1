"""Overlap of a response with its reference answer as dialogue benchmarks report it: BLEU, token F1, exact match.

BLEU is a score of a corpus: a mean over sentences is another number, so it goes by another name here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ragtasks.metrics._metric import Pair
from ragtasks.metrics.lexical._rouge import normalised_tokens


def corpus_bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all responses together, from 0 to 100, higher is better; NaN for no pairs.

    n-grams up to 4, tokeniser 13a, exponential smoothing, mixed case: sacrebleu's own defaults, the signature
    `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`.

    Args:
        pairs: a response and its reference answer each.

    Source: Post 2018; the official `scripts/sharedtask_eval.py` of IBM/multidoc2dial at 494b743.
    """
    # The library's import takes a while, and most evaluations need no BLEU.
    from sacrebleu.metrics.bleu import BLEU

    texts = list(pairs)
    if not texts:
        return float("nan")
    return float(BLEU().corpus_score([text for text, _ in texts], [[target for _, target in texts]]).score)


def sentence_bleu(response: str, target: str) -> float:
    """Return SacreBLEU of one response, from 0 to 100, higher is better; an empty response gives 0.

    n-grams longer than the response do not count (sacrebleu's effective order), else a short answer could not be
    right. The mean of this over responses is not `corpus_bleu`.
    """
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(effective_order=True).sentence_score(response, [target]).score)


def token_f1(response: str, target: str) -> float:
    """Return the F1 of the tokens of two texts, from 0 to 1, higher is better.

    Both are lower-cased, stripped of ASCII punctuation and of the articles a, an and the, and cut at white space. A
    token counts as often as it occurs in both; texts that share none, also two empty ones, give 0.

    Source: SQuAD 1.1 (Rajpurkar et al. 2016, section 6.1), as `scripts/sharedtask_eval.py` at 494b743 computes it.
    """
    left, right = Counter(normalised_tokens(response)), Counter(normalised_tokens(target))
    shared = (left & right).total()
    return 2 * shared / (left.total() + right.total()) if shared else 0.0


__all__ = ["corpus_bleu", "sentence_bleu", "token_f1"]
