"""Scores of words: overlap with a reference or with passages, in one normalisation."""

from ragtasks.metrics.lexical._extractiveness import extractiveness
from ragtasks.metrics.lexical._generation import corpus_bleu, sentence_bleu, token_f1
from ragtasks.metrics.lexical._meteor import meteor
from ragtasks.metrics.lexical._rouge import rouge_l, rouge_l_batch, token_recall

__all__ = [
    "corpus_bleu",
    "extractiveness",
    "meteor",
    "rouge_l",
    "rouge_l_batch",
    "sentence_bleu",
    "token_f1",
    "token_recall",
]
