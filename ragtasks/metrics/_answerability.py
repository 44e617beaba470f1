"""Does a response say that it does not know, and is that right for its question?

The first is a label of a detector (n-grams, an encoder, a language model), behind one protocol. The second is a plain
comparison of that label with the benchmark's answerability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragtasks.metrics._metric import Metric
from ragtasks.metrics.refusals import VERDICTS, Probabilities, is_english, probabilities, unreadable
from ragtasks.metrics.semantic import check_device
from ragtasks.records import Answerability, IdkVerdict, Response, Score

NO_VERDICT = "no IDK verdict"
"""The reason of every score that needs an IDK verdict and has none."""


@dataclass(frozen=True, slots=True)
class IdkLabel:
    """What a detector found in one response."""

    verdict: IdkVerdict | None
    """The label of appendix F.3 of the MTRAG paper, or None where the detector could not tell: unscored."""
    reason: str
    """What the verdict rests on, or why there is none."""


class IdkDetector(Protocol):
    """Anything that tells whether responses say that they do not know.

    `yes`: the response says that the question cannot be answered, for example for lack of information; `partial`: it
    says so of a part and tries to answer another; `no`: anything else (MTRAG paper, appendix F.3).
    """

    @property
    def name(self) -> str:
        """Short name that reports print beside the scores."""

    def detect(self, responses: Sequence[Response]) -> list[IdkLabel]:
        """Return one label a response, in the order of `responses`; [] for none."""


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
    labels = _known(responses, known_refusals)
    for place, response in enumerate(responses):
        if labels[place] is None and (why := unreadable(response.text)):
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


def _known(responses: Sequence[Response], known_refusals: Sequence[str]) -> list[IdkLabel | None]:
    """Return the label of each response that is one of a benchmark's own refusals, None for the others."""
    known = {_bare(sentence) for sentence in known_refusals}
    return [_refusal(response.text) if _bare(response.text) in known else None for response in responses]


def _refusal(text: str) -> IdkLabel:
    return IdkLabel(IdkVerdict.YES, f"a refusal that the benchmark fixes: {text.strip()}")


def _bare(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .\"'`")


UNDEFINED_ON = frozenset({Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED})
"""Tasks without a right answer to whether to refuse: the paper leaves out the one, the other asks for a question."""


def answerability_correct(answerability: Answerability, verdict: IdkVerdict | None) -> bool | None:
    """Return whether a response refuses exactly where it should, or None where that is not defined.

    Right are `no` and `partial` on ANSWERABLE and PARTIAL, and `yes` on UNANSWERABLE. Not defined: CONVERSATIONAL
    (the paper leaves those tasks out), UNDERSPECIFIED (the right reply is a question back), and no verdict.

    Source: MTRAG paper, section 6.3.3 (Ans. Acc. of Table 5 is the mean).
    """
    if verdict is None or answerability in UNDEFINED_ON:
        return None
    return (verdict is IdkVerdict.YES) == (answerability is Answerability.UNANSWERABLE)


def answerability_accuracy(
    answerability: Answerability, verdict: IdkVerdict | None, *, is_answer: bool = True
) -> Score:
    """Return 1.0 where `answerability_correct` holds, 0.0 where it does not, else a Score without a value.

    The metric is the mean over scored responses; higher is better. A response that is no answer at all, such as empty
    text (`is_no_answer`), neither answers nor refuses: it is wrong on every task that has a right reply.
    """
    if not is_answer and answerability not in UNDEFINED_ON:
        return Score(0.0)
    correct = answerability_correct(answerability, verdict)
    if correct is not None:
        return Score(float(correct))
    if verdict is None:
        return Score(None, NO_VERDICT)
    return Score(None, f"answerability accuracy is not defined on {answerability.value} tasks")


ANS_ACC = Metric("ans_acc", "answerability accuracy: refuses exactly where it should", undefined_on=UNDEFINED_ON)


# A refusal is right on an unanswerable task and wrong on any other: scores conditioned on answerability.
# The raw metrics compare a response with texts, and a refusal resembles none of them. So whether to refuse was
# right decides first, and the raw score counts only where the task has an answer and the response tries to give it.
# Two tables: the paper's, and the official script's, which answers where the paper says nothing or leaves a task
# out.

LEFT_OUT = "conversational tasks are left out (paper, section 6.3.3)"
"""The reason of a conversational task's score in the paper's profile."""
NO_CLARIFICATION = "no verdict on whether the response asks for clarification"
"""The reason of an underspecified task's score in the paper's profile, until such a verdict exists."""
_NO_RAW = "the raw metric has no value"
_OFFICIAL_KEY = "answerability"


def condition_paper(
    score: Score, answerability: Answerability, verdict: IdkVerdict | None, *, clarification: bool | None = None
) -> Score:
    """Return a raw score conditioned as the paper defines it.

    | task                | verdict no, partial | verdict yes |
    | ------------------- | ------------------- | ----------- |
    | ANSWERABLE, PARTIAL | the raw score       | 0           |
    | UNANSWERABLE        | 0                   | 1           |

    The raw score is passed through as it is, reason and range included, so an unscored one stays unscored; in the
    other three cells it is not looked at. CONVERSATIONAL is unscored. UNDERSPECIFIED, which came with MTRAG-UN, is 1
    where the response asks for clarification, 0 where it does not, unscored while that is unknown. Elsewhere no
    verdict means unscored.

    Source: MTRAG paper, section 6.3.3; its phi is one of RB_alg, RB_llm, RL_F.

    Args:
        score: the raw metric of the response.
        answerability: the task's label.
        verdict: whether the response says that it does not know; None where no detector could tell.
        clarification: whether the response asks what is meant; used on UNDERSPECIFIED tasks only.
    """
    if answerability is Answerability.CONVERSATIONAL:
        return Score(None, LEFT_OUT)
    if answerability is Answerability.UNDERSPECIFIED:
        return Score(None, NO_CLARIFICATION) if clarification is None else Score(float(clarification))
    if verdict is None:
        return Score(None, NO_VERDICT)
    is_refusal = verdict is IdkVerdict.YES
    if answerability is Answerability.UNANSWERABLE:
        return Score(float(is_refusal))
    return Score(0.0) if is_refusal else score


def is_settled(answerability: Answerability, verdict: IdkVerdict | None) -> bool:
    """Return whether `condition_paper` does not look at the raw score, whatever that is."""
    if answerability in UNDEFINED_ON or verdict is IdkVerdict.YES:
        return True
    return answerability is Answerability.UNANSWERABLE and verdict is not None


def condition_ibm(
    raw: float | None,
    answerability: Answerability | None,
    verdict: IdkVerdict | None,
    *,
    clarification: bool | None = None,
) -> Score:
    """Return a raw score conditioned as the official script does it, quirks included.

    In this order: UNDERSPECIFIED gives 1 with `clarification` True, else 0, even where nobody asked; UNANSWERABLE and
    CONVERSATIONAL give 1 with `yes`, 0 with `no` or `partial`; any other `yes` gives 0; the rest is the raw score.

    Known differences from `condition_paper`: conversational tasks count as unanswerable; without a verdict the raw
    score stands, so a judge that answers off-format lets a hallucination on an UNANSWERABLE task keep its score; an
    underspecified task without a clarification verdict is 0; where answerability is not visible to the script (see
    `ibm_visible_answerability`) a right refusal is 0 and a hallucination keeps its score.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4. Its numbers 1, 0.5 and 0 are
    `yes`, `partial` and `no` here, its text "unknown" is None.
    """
    if answerability is Answerability.UNDERSPECIFIED:
        return Score(1.0 if clarification else 0.0)
    is_refusal = verdict is IdkVerdict.YES
    if verdict is not None and answerability in (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL):
        return Score(float(is_refusal))
    if is_refusal:
        return Score(0.0)
    return Score(None, _NO_RAW) if raw is None or math.isnan(raw) else Score(raw)


def ibm_visible_answerability(answerability: Answerability, file_key: str) -> Answerability | None:
    """Return the label that the official script sees in a file that writes it under `file_key`, None for none.

    The script reads the key `answerability` in lower case only. MTRAG's task files write `Answerability`, so there it
    conditions as if every task had an answer; MTRAG-UN's write it in lower case.

    Source: IBM/mt-rag-benchmark, judges of scripts/evaluation, commit cc5b1d4.
    """
    return answerability if file_key == _OFFICIAL_KEY else None
