"""k1, b and analyser of the BM25 retrievers that let them be set, checked once, with the canonical name they give."""

from __future__ import annotations

from dataclasses import dataclass

from ragtasks.errors import ConfigurationError, clear_error, close_matches
from retrieval_cache.retrievers.bm25._analysers import ANALYSERS


@dataclass(frozen=True, slots=True)
class Bm25Options:
    """The parameters of one BM25."""

    k1: float
    """How fast repetitions of a term saturate: 0 or more."""
    b: float
    """How much a passage's length counts: 0 to 1."""
    analyser: str
    """One of `analysers.ANALYSERS`."""

    def __post_init__(self) -> None:
        for name, value, highest in (("k1", self.k1, 100.0), ("b", self.b, 1.0)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
                message = clear_error(
                    "BM25",
                    where=name,
                    expected=f"a number from 0 to {highest:g}",
                    found=repr(value),
                    next_step="such as bm25s:k1=0.9,b=0.4",
                )
                raise ConfigurationError(message)
            object.__setattr__(self, name, float(value))
        if self.analyser not in ANALYSERS:
            hint = close_matches(str(self.analyser), ANALYSERS)
            raise ConfigurationError(f"unknown analyser {self.analyser!r}: {hint}")

    def name(self, kind: str) -> str:
        """Return the canonical line; the analyser is in it where it is not the default."""
        analyser = "" if self.analyser == "english" else f",analyser={self.analyser}"
        return f"{kind}:k1={self.k1!r},b={self.b!r}{analyser}"


__all__ = ["Bm25Options"]
