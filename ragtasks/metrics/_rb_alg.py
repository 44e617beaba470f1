"""RB_alg: one score from three algorithmic ones, as the paper defines it and as the official script computes it."""

from __future__ import annotations


def rb_alg_raw(bert_recall: float, rouge_l: float, bert_k_precision: float | None) -> float:
    """Return the harmonic mean of (Bert-Recall + 1) / 2, ROUGE-L and (Bert-K-Precision + 1) / 2.

    Bert-Recall means completeness, Bert-K-Precision (maximum over the passages) for faithfulness, ROUGE-L for
    appropriateness; BERTScore's scale from -1 to 1 is moved to 0 to 1. In [0, 1], higher is better.

    A factor at or below 0 (a rescaled BERTScore can be below -1) gives 0, since a harmonic mean is defined for
    positive numbers and tends to 0 with its smallest. No passages (`bert_k_precision` None) gives 0, as in the
    official script: nothing that the answer could rest on was given. Unanswerable tasks do not use this score.

    Source: MTRAG paper, section 6.3.1; `run_algorithmic.py`, RB_agg, at commit cc5b1d4.
    """
    factors = _factors(bert_recall, rouge_l, bert_k_precision)
    return 0.0 if min(factors) <= 0 else _harmonic_mean(factors)


def rb_agg_ibm(bert_recall: float, rouge_l: float, bert_k_precision: float | None) -> float:
    """Return RB_agg as the official script has it; differs from `rb_alg_raw` below a factor of 0 only.

    The script tests for exactly 0, so a slightly negative factor passes and gives a negative or a huge score.

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


__all__ = ["rb_agg_ibm", "rb_alg_raw"]
