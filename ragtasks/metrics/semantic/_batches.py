"""Batches whose shape depends only on a text's length, so that the vectors of a text are bit-identical in any batch.

The last bits of a matrix product depend on the shapes of the factors. The encoder therefore receives a text in a fixed
shape: rows, width, with or without a mask, independent of the other texts. Spare rows repeat the last text. Only then
can cached vectors replace new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batching:
    """Rule that groups texts into batches by a budget of tokens."""

    tokens: int
    """Maximum number of tokens of a batch, padding included; a longer text is a separate batch."""
    step: int
    """Widths are multiples of this number; 1 disables padding."""

    def shape(self, length: int, limit: int | None) -> tuple[int, int]:
        """Return (rows, width) of the batch for a text."""
        # At least one token of padding if padding is used: an encoder may treat a batch without padding as one without
        # a mask.
        padded = length if self.step == 1 else (length // self.step + 1) * self.step
        width = padded if limit is None else max(length, min(padded, limit))
        return max(1, self.tokens // max(1, width)), width


ONE_BY_ONE = Batching(1, 1)
"""On a CPU a text of usual length keeps all cores busy; more texts only add padding."""
ON_GPU = Batching(2**13, 64)


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts that the encoder processes together."""

    texts: Sequence[str]
    """At least one, at most `rows`."""
    rows: int
    """Rows of the batch; spare rows repeat the last text."""
    width: int
    is_full: bool
    """Whether every text fills its row, so that no mask is needed."""


def batches(token_ids: Mapping[str, Sequence[int]], batching: Batching, limit: int | None) -> Iterator[Batch]:
    """Yield all texts in batches, longest first, so that a lack of memory shows at once."""
    shaped: dict[tuple[int, int, bool], list[str]] = {}
    for text in sorted(token_ids, key=lambda text: len(token_ids[text]), reverse=True):
        length = len(token_ids[text])
        rows, width = batching.shape(length, limit)
        shaped.setdefault((rows, width, length == width), []).append(text)
    for (rows, width, is_full), texts in shaped.items():
        for start in range(0, len(texts), rows):
            yield Batch(texts[start : start + rows], rows, width, is_full)
