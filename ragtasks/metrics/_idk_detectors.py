"""Detectors of responses that say that they do not know: n-grams, or n-grams with an encoder.

`yes`: the response says that the question cannot be answered, for example for lack of information; `partial`: it says
so of a part and tries to answer another; `no`: anything else (MTRAG paper, appendix F.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtasks.metrics.refusals import VERDICTS, Probabilities, is_english, probabilities, unreadable
from ragtasks.metrics.semantic import check_device
from ragtasks.records import IdkVerdict, Response


@dataclass(frozen=True, slots=True)
class IdkLabel:
    """What a detector found in one response."""

    verdict: IdkVerdict | None
    """The label of appendix F.3 of the MTRAG paper, or None where the detector could not tell: unscored."""
    reason: str
    """What the verdict rests on, or why there is none."""


@dataclass(frozen=True, slots=True)
class NgramIdk:
    """The offline detector: a linear model over n-grams (`refusals.py`) that reads the response alone.

    It stands in for the paper's LLM judge, which it does not equal: docs/metrics.md shows how far labels and verdicts
    agree, and `perf/train_refusals.py` measures it.
    """

    known_refusals: tuple[str, ...] = ()
    """Sentences that refuse if a response is one of them; case, blanks, quotes and the full stop aside."""
    name: str = "ngrams-1"
    """Short name in reports and results; its number grows when verdicts change, and scores with them."""

    def detect(self, responses: Sequence[Response]) -> list[IdkLabel]:
        """Return one label a response, in the order of `responses`; [] for none.

        The reason gives the probability and, of `yes` and `partial`, the sentence that most says that information is
        missing. Empty text is `no`. Text in a language or script without labelled sentences has no verdict.
        """
        return _detect(responses, self.known_refusals, probabilities)


@dataclass(frozen=True, slots=True)
class EncoderIdk:
    """`NgramIdk` combined with the small packaged encoder, tuned on labelled responses: the mean of both decides.

    The encoder reads English, with torch (`ragtasks[semantic]`) or without (`semantic-light`); other languages are
    read as by `NgramIdk`. `perf/train_refusal_encoder.py` tunes it.
    """

    known_refusals: tuple[str, ...] = ()
    """As of `NgramIdk`."""
    device: str | None = None
    """Torch device; None takes the GPU if one is available."""
    name: str = "encoder-4"
    """As of `NgramIdk`."""

    def check(self) -> None:
        """Check that the encoder can run, before a model does whose answers it is to read.

        Raises:
            MissingExtraError: a library is not installed.
            ConfigurationError: the device is not available.
        """
        from ragtasks.metrics.refusal_encoder import check_reader

        check_reader(self.device)
        check_device(self.device, purpose='the IDK detector "encoder"')

    def detect(self, responses: Sequence[Response]) -> list[IdkLabel]:
        """Return one label a response, in the order of `responses`; [] for none. The reason is as of `NgramIdk`."""
        return _detect(responses, self.known_refusals, self._both)

    def _both(self, texts: Sequence[str]) -> list[tuple[Probabilities, str]]:
        """Return the mean of both readings of English texts in which information may be missing."""
        from ragtasks.metrics.refusal_encoder import read

        found = probabilities(texts)
        unsure = [place for place, (odds, _) in enumerate(found) if odds[2] < _SURE and is_english(texts[place])]
        for place, second in zip(unsure, read([texts[place] for place in unsure], self.device), strict=True):
            first, sentence = found[place]
            yes, partial, no = ((1 - _SHARE) * one + _SHARE * two for one, two in zip(first, second, strict=True))
            found[place] = ((yes, partial, no), sentence)
        return found


_SHARE = 0.5
"""Weight of the encoder beside the n-grams."""
_SURE = 0.995
"""Probability of `no` from which no second opinion is asked for."""


def _detect(
    responses: Sequence[Response],
    known_refusals: Sequence[str],
    read: Callable[[Sequence[str]], list[tuple[Probabilities, str]]],
) -> list[IdkLabel]:
    """Return the labels of responses; `read` returns probabilities of `VERDICTS` and a sentence for each text."""
    known = set(map(_bare, known_refusals))
    labels: list[IdkLabel | None] = [None] * len(responses)
    for place, response in enumerate(responses):
        if _bare(response.text) in known:
            reason = f"a refusal that the benchmark fixes: {response.text.strip()}"
            labels[place] = IdkLabel(IdkVerdict.YES, reason)
        elif why := unreadable(response.text):
            labels[place] = IdkLabel(None, why)
    texts = [response.text for label, response in zip(labels, responses, strict=True) if label is None]
    found = iter(read(texts))
    return [label or _label(*next(found)) for label in labels]


def _label(odds: Probabilities, sentence: str) -> IdkLabel:
    if not sentence:
        return IdkLabel(IdkVerdict.NO, "empty: no words")
    verdict = VERDICTS[max(range(len(VERDICTS)), key=odds.__getitem__)]
    quoted = "" if verdict is IdkVerdict.NO else f": {sentence}"
    return IdkLabel(verdict, f"{verdict.value} {max(odds):.2f}{quoted}")


def _bare(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .\"'`")
