"""BM25 over passages in memory, the default run of `custom_full_rag`. It needs no index on disk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragtasks.files import Ranked, in_rank_order
from ragtasks.languages import ENGLISH, words_of
from ragtasks.records import Passage

if TYPE_CHECKING:
    import bm25s

BUILT_IN_RUN = "bm25 (built in)"
"""Name of the run in results."""
K1, B = 1.2, 0.75
"""Defaults of Lucene and tantivy."""

_TERM = re.compile(r"[^\W_]+")


def bm25_rankings(
    queries: Mapping[str, str], passages: Iterable[Passage], k: int, language: str = ENGLISH
) -> dict[str, tuple[str, ...]]:
    """Return query id -> the best `k` passage ids, best first.

    English terms are sequences of letters and digits in lower case. Terms of other languages are the words of
    `words_of`. A term that occurs twice in a query counts twice. A query that shares no term with any passage gets an
    empty ranking.

    Args:
        queries: query id -> text.
        passages: passages of one domain. Each text includes its title.
        k: maximum passages per query.
        language: ISO 639-1 code.
    """
    import bm25s

    passage_list = list(passages)
    texts = [_terms(passage.text, language) for passage in passage_list]
    if not any(texts):
        return dict.fromkeys(queries, ())
    # The formula of the retriever `bm25-standard`, with exact passage lengths.
    index = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
    index.index(texts, show_progress=False)
    return {
        query_id: _top_passages(index, _terms(text, language), passage_list, k) for query_id, text in queries.items()
    }


def _top_passages(index: bm25s.BM25, terms: list[str], passages: Sequence[Passage], k: int) -> tuple[str, ...]:
    import numpy as np

    numbers = index.get_tokens_ids(terms)
    if not numbers:
        return ()
    # bm25s omits the constant factor (K1 + 1), which affects rounding to 32 bits.
    scores = index.get_scores_from_ids(numbers) * (K1 + 1)
    # Ranks compare scores in 32 bits, so a passage just below the k-th score may be a tie.
    least = np.partition(scores, -k)[-k] * (1 - 1e-6) if k < len(scores) else 0.0
    matches = np.flatnonzero((scores >= least) & (scores > 0)).tolist()
    ranked = in_rank_order(Ranked(passages[position].passage_id, float(scores[position])) for position in matches)
    return tuple(passage.passage_id for passage in ranked[:k])


def _terms(text: str, language: str) -> list[str]:
    return _TERM.findall(text.lower()) if language == ENGLISH else words_of(text, language)
