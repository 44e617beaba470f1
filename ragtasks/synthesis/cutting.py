"""Cut documents into passages by tokens (512, overlap 100) or sentences (10, every 5), without near-duplicates.

`retrieval_cache.corpora` cuts the passages, as for other corpora: the id contains the passage's position in the
document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ragtasks.errors import ConfigurationError
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.synthesis.documents import Document, LeftOut
from ragtasks.tables import grouped
from retrieval_cache import Tokenizer, encoder_tokenizer, near_duplicates, plain_tokenizer, segment, sentence_windows

TOKENS, SHARED_TOKENS = 512, 100
THRESHOLD = 0.8
"""Minimum Jaccard similarity of near-duplicates."""
SHINGLE_WORDS = 9
"""Words of a shingle, as in TREC RAG's removal of near-duplicates."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Settings for cutting documents into passages."""

    unit: str = "tokens"
    """`tokens` or `sentences`."""
    size: int = TOKENS
    """Maximum number of units in a passage."""
    stride: int = TOKENS - SHARED_TOKENS
    """Units from the start of a passage to the start of the next one."""
    tokenizer: str = ""
    """Name or folder of an encoder's tokenizer; empty for words and signs."""
    threshold: float = THRESHOLD
    """Minimum Jaccard similarity of near-duplicates, 0.5 to 1."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for sizes that do not fit each other."""
        if self.unit not in ("tokens", "sentences"):
            raise ConfigurationError(f"passages are cut by tokens or sentences, found {self.unit!r}")
        if not 1 <= self.stride <= self.size:
            raise ConfigurationError(f"passages need 1 <= stride <= size, found stride {self.stride}, size {self.size}")


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A passage with its document."""

    passage: Passage
    """Id, text without the title, title."""
    document_id: str
    domain: str


def cut_documents(
    documents: Sequence[Document], cut: Cut, progress: Progress = no_progress
) -> tuple[list[DocumentPassage], list[LeftOut]]:
    """Return the remaining passages, in the order of the documents, and the removed near-duplicates.

    Near-duplicates are searched within a domain; the first passage of a group remains.
    """
    tokenizer = encoder_tokenizer(cut.tokenizer) if cut.tokenizer else plain_tokenizer
    passages = (
        DocumentPassage(passage, document.document_id, document.domain)
        for document in documents
        for passage in _cut_document(document, cut, tokenizer)
    )
    by_domain = grouped(passages, lambda passage: passage.domain)
    repeated: dict[str, str] = {}
    for passages_of_domain in by_domain.values():
        domain_passages = [passage.passage for passage in passages_of_domain]
        for group in near_duplicates(partial(list, domain_passages), cut.threshold, progress, SHINGLE_WORDS).groups:
            repeated |= dict.fromkeys(group.passage_ids[1:], group.passage_ids[0])
    kept = [
        passage
        for passages_of_domain in by_domain.values()
        for passage in passages_of_domain
        if passage.passage.passage_id not in repeated
    ]
    return kept, [LeftOut(name, f"nearly the same text as {first}") for name, first in repeated.items()]


def _cut_document(document: Document, cut: Cut, tokenizer: Tokenizer) -> Iterator[Passage]:
    if cut.unit == "tokens":
        text = Passage(document.document_id, document.text, document.title)
        yield from segment(text, cut.size, cut.size - cut.stride, tokenizer, title_in_text=False)
        return
    for start, end in sentence_windows(document.text, cut.size, cut.stride):
        yield Passage(f"{document.document_id}-{start}-{end}", document.text[start:end], document.title)
