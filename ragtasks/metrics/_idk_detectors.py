"""Detectors of responses that state that they do not know: n-grams, or n-grams with an encoder.

Verdicts: `yes`, the response states that the question cannot be answered, for example for lack of information;
`partial`, it states this of one part of the question and tries to answer another; `no`, any other response (MTRAG
paper, appendix F.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtasks.metrics.refusals import VERDICTS, Probabilities, is_english, probabilities, unreadable
from ragtasks.metrics.semantic import check_device
from ragtasks.records import IdkVerdict, Response


@dataclass(frozen=True, slots=True)
class IdkLabel:
    """Verdict of a detector on one response."""

    verdict: IdkVerdict | None
    """Label of appendix F.3 of the MTRAG paper; None if the detector cannot read the response (unscored)."""
    reason: str
    """Basis of the verdict, or why it is missing."""


@dataclass(frozen=True, slots=True)
class NgramIdk:
    """Offline detector: a linear model over n-grams (`refusals.py`) that reads the response only.

    It replaces the paper's LLM judge and does not equal it: docs/background/answer-checks.md lists the agreement of
    labels and verdicts, which `perf/train_refusals.py` measures.
    """

    known_refusals: tuple[str, ...] = ()
    """Fixed refusals: an equal response is `yes`. Case, extra whitespace, outer quotes and full stops are ignored."""
    name: str = "ngrams-2"
    """Short name in reports and results. Its number increases when verdicts, and so scores, change."""

    def detect(self, responses: Sequence[Response]) -> list[IdkLabel]:
        """Return one label per response, in order.

        The reason contains the probability and, for `yes` and `partial`, the sentence with the strongest sign of
        missing information. Empty text is `no`. Text in a language or script without labelled sentences has no verdict.
        """
        return _detect(responses, self.known_refusals, probabilities)


@dataclass(frozen=True, slots=True)
class EncoderIdk:
    """`NgramIdk` combined with the packaged small encoder, tuned on labelled responses: probabilities are averaged.

    The encoder reads English, with torch (`ragtasks[semantic]`) or without (`semantic-light`). Other languages are read
    by the n-grams only. `perf/train_refusal_encoder.py` tunes the encoder.
    """

    known_refusals: tuple[str, ...] = ()
    """As in `NgramIdk`."""
    device: str | None = None
    """Torch device; None selects the GPU if one is available."""
    name: str = "encoder-5"
    """As in `NgramIdk`."""

    def check(self) -> None:
        """Check that the encoder can run, before a model generates responses for it.

        Raises:
            MissingExtraError: a library is not installed.
            ConfigurationError: the device is not available.
        """
        from ragtasks.metrics.refusal_encoder import check_reader

        check_reader(self.device)
        check_device(self.device, purpose='the IDK detector "encoder"')

    def detect(self, responses: Sequence[Response]) -> list[IdkLabel]:
        """Return one label per response, in order; reasons as in `NgramIdk.detect`."""
        return _detect(responses, self.known_refusals, self._mean_probabilities)

    def _mean_probabilities(self, texts: Sequence[str]) -> list[tuple[Probabilities, str]]:
        """Return the n-gram probabilities, averaged with the encoder's for English texts that may lack information."""
        from ragtasks.metrics.refusal_encoder import read

        readings = probabilities(texts)
        unsure = [
            index
            for index, (verdict_probabilities, _) in enumerate(readings)
            if verdict_probabilities[2] < _SURE and is_english(texts[index])
        ]
        for index, by_encoder in zip(unsure, read([texts[index] for index in unsure], self.device), strict=True):
            by_ngrams, sentence = readings[index]
            yes, partial, no = (
                (1 - _SHARE) * ngram + _SHARE * encoder for ngram, encoder in zip(by_ngrams, by_encoder, strict=True)
            )
            readings[index] = ((yes, partial, no), sentence)
        return readings


_SHARE = 0.5
"""Weight of the encoder's probabilities; the n-grams have the weight 1 - `_SHARE`."""
_SURE = 0.995
"""Probability of `no` by n-grams from which the encoder is skipped."""


def _detect(
    responses: Sequence[Response],
    known_refusals: Sequence[str],
    read: Callable[[Sequence[str]], list[tuple[Probabilities, str]]],
) -> list[IdkLabel]:
    """Return the labels of responses; `read` returns, per text, the probabilities of `VERDICTS` and a sentence."""
    fixed = set(map(_normalized, known_refusals))
    labels: list[IdkLabel | None] = [None] * len(responses)
    for index, response in enumerate(responses):
        if _normalized(response.text) in fixed:
            reason = f"a refusal that the benchmark fixes: {response.text.strip()}"
            labels[index] = IdkLabel(IdkVerdict.YES, reason)
        elif problem := unreadable(response.text):
            labels[index] = IdkLabel(None, problem)
    texts = [response.text for label, response in zip(labels, responses, strict=True) if label is None]
    readings = iter(read(texts))
    return [label or _label(*next(readings)) for label in labels]


def _label(verdict_probabilities: Probabilities, sentence: str) -> IdkLabel:
    if not sentence:
        return IdkLabel(IdkVerdict.NO, "empty: no words")
    verdict = VERDICTS[max(range(len(VERDICTS)), key=verdict_probabilities.__getitem__)]
    quoted = "" if verdict is IdkVerdict.NO else f": {sentence}"
    return IdkLabel(verdict, f"{verdict.value} {max(verdict_probabilities):.2f}{quoted}")


def _normalized(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .\"'`")
