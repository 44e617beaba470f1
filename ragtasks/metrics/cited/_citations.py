"""Citations: whether they name something that was shown, and whether it supports the sentence that cites it.

Support is judged for the first citation of each sentence: full counts 1, partial half. Precision is over the sentences
that cite, recall over all sentences, so that what is not cited is not supported.

Source: arXiv 2504.15205, sections 3.2 to 3.4 (TREC RAG 2024), as summarised by a third party with its worked example.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.metrics.cited._cited_answer import CitedSentence
from ragtasks.records import Score, Support

SUPPORT_SCORES = ("support_precision", "support_recall")
"""Names of the scores on support."""

SUPPORT_WEIGHTS = {Support.FULL: 1.0, Support.PARTIAL: 0.5, Support.NO: 0.0}
"""What a level counts."""

_NOTHING_SAID = "the answer has no sentence"
_NOTHING_CITED = "no sentence cites"


def support_precision(cites: Sequence[bool], levels: Sequence[Support | None]) -> Score:
    """Return the mean support of the sentences that cite, 0 to 1, higher is better; no value where none does.

    Args:
        cites: whether each sentence cites a reference.
        levels: what its first citation gives; None where it was not judged: such a sentence that cites is left out.
    """
    judged = [SUPPORT_WEIGHTS[level] for cited, level in zip(cites, levels, strict=True) if cited and level is not None]
    return Score(sum(judged) / len(judged)) if judged else Score(None, _why_none(cites))


def support_recall(cites: Sequence[bool], levels: Sequence[Support | None]) -> Score:
    """Return the mean support of all sentences, 0 to 1, higher is better; one that does not cite counts 0.

    No sentences, or none that could be judged: no value. Arguments as for `support_precision`.
    """
    pairs = zip(cites, levels, strict=True)
    judged = [SUPPORT_WEIGHTS[level or Support.NO] for cited, level in pairs if not cited or level is not None]
    return Score(sum(judged) / len(judged)) if judged else Score(None, _why_none(cites))


def support_scores(cites: Sequence[bool], levels: Sequence[Support | None]) -> dict[str, Score]:
    """Return both scores of an answer by their names; arguments as for `support_precision`."""
    return dict(zip(SUPPORT_SCORES, (support_precision(cites, levels), support_recall(cites, levels)), strict=True))


def citation_validity(sentences: Sequence[CitedSentence]) -> Score:
    """Return the share of an answer's citations that name a reference, 0 to 1; no value without citations."""
    n_valid = sum(len(sentence.citations) for sentence in sentences)
    n_invalid = sum(len(sentence.invalid) for sentence in sentences)
    return Score(n_valid / (n_valid + n_invalid)) if n_valid + n_invalid else Score(None, _NOTHING_CITED)


def cited_share(sentences: Sequence[CitedSentence]) -> Score:
    """Return the share of sentences that cite a reference, 0 to 1; no value without sentences."""
    if not sentences:
        return Score(None, _NOTHING_SAID)
    return Score(sum(bool(sentence.citations) for sentence in sentences) / len(sentences))


def _why_none(cites: Sequence[bool]) -> str:
    if not cites:
        return _NOTHING_SAID
    return "no sentence that cites was judged" if any(cites) else _NOTHING_CITED


__all__ = [
    "SUPPORT_SCORES",
    "SUPPORT_WEIGHTS",
    "citation_validity",
    "cited_share",
    "support_precision",
    "support_recall",
    "support_scores",
]
