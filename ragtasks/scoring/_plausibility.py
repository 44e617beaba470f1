"""Plausibility checks of a system's answers to one setting, made during scoring.

A broken program still gets scores: an empty text never refuses, and most tasks have an answer. Each check is a row of
`CHECKS` and reads all answers of a setting, since some damage shows only in comparison. The measured false-alarm rate
of a check determines how many matches it needs to report. Its recall determines how many damaged answers the matches
stand for.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ragtasks.benchmarks import Benchmark
from ragtasks.config import BASELINES
from ragtasks.errors import ImplausibleError, RagtasksError, excerpt
from ragtasks.files import UNNAMED
from ragtasks.languages import language_of
from ragtasks.metrics import (
    NgramIdk,
    is_error_text,
    is_negation,
    is_tool_call,
    is_wrapped,
    sentence_ends,
    turn_error,
    unseen_citations,
)
from ragtasks.records import Answerability, IdkVerdict, Passage, Response, Role, Setting
from ragtasks.results import ScoredAnswer

EXEMPT = frozenset(BASELINES)
"""Declared baselines: identical answers are their purpose."""

_LONGEST_EXCERPT = 80
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Matches of one check among the answers of one system to one setting."""

    name: str
    """Name of the check, a key of `CHECKS`."""
    count: int
    n: int
    """Number of answers, without failed requests."""
    example: str
    """Task id of the first match."""
    excerpt: str
    """Short excerpt of that answer on one line; empty if it has no text."""

    @property
    def share(self) -> float:
        """Share of the answers, 0 to 1."""
        return self.count / self.n if self.n else 0.0

    @property
    def estimated_share(self) -> float:
        """Estimated share of damaged answers, 0 to 1: (share - false alarms) / (recall - false alarms)."""
        check = _check_named(self.name)
        return min(1.0, max(0.0, self.share - check.false_alarms) / (check.recall - check.false_alarms))

    @property
    def description(self) -> str:
        """Number of matches and the check's description."""
        return f"{self.count} of {self.n} answers ({self.share:.0%}) {_check_named(self.name).description}"

    def __str__(self) -> str:
        """Return one line for people."""
        excerpt = f": {json.dumps(self.excerpt, ensure_ascii=False)}" if self.excerpt else ""
        return f"{self.description}, such as {self.example}{excerpt}"


@dataclass(frozen=True, slots=True)
class CheckedAnswers:
    """Matches of all checks among the answers of one system to one setting."""

    label: str
    matches: tuple[tuple[str, Mapping[str, str]], ...]
    """Task id and the result of `find_implausible`, for every existing answer."""

    @property
    def summary(self) -> list[Plausibility]:
        """One record per check with matches, in the order of `CHECKS`."""
        examples: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for task_id, names in self.matches:
            for name, text in names.items():
                examples[name].append((task_id, text))
        order = [name for name in dict.fromkeys([*CHECKS, *examples]) if name in examples]
        return [Plausibility(name, len(examples[name]), len(self.matches), *examples[name][0]) for name in order]

    @property
    def n_implausible(self) -> int:
        """Number of answers with a match of a check that counts."""
        return sum(any(_check_named(name).counts for name in names) for _, names in self.matches)

    @property
    def estimated_share(self) -> float:
        """Estimated share of implausible answers, 0 to 1; an answer with several matches counts once."""
        weights = {
            result.name: _check_named(result.name).counts * result.estimated_share / result.share
            for result in self.summary
        }
        weighed = (max((weights[name] for name in names), default=0.0) for _, names in self.matches)
        return min(1.0, sum(weighed) / len(self.matches)) if self.matches else 0.0

    @property
    def lines(self) -> list[str]:
        """Lines to print with the scores."""
        return [f"implausible: {result}" for result in self.summary]

    def __str__(self) -> str:
        """Return the number of implausible answers, and the most frequent problem."""
        most = max(self.summary, key=lambda result: (_check_named(result.name).counts, result.count))
        share, estimated = (f"{value:.0%}" for value in (self.n_implausible / len(self.matches), self.estimated_share))
        return (
            f"{self.n_implausible} of {len(self.matches)} answers to {self.label} ({share}) are implausible "
            f"(most {_check_named(most.name).description})"
            f"{f', which means about {estimated} are' if estimated != share else ''}"
        )


def require_plausible(checked: Sequence[CheckedAnswers], limit: float, saved: str) -> None:
    """Raise an `ImplausibleError` if the estimated share of implausible answers to a setting is above the limit."""
    above = [
        f"{answers.n_implausible} of {len(answers.matches)} answers to {answers.label} "
        f"({answers.estimated_share:.0%} by estimate)"
        for answers in checked
        if answers.estimated_share > limit
    ]
    if above:
        raise ImplausibleError(
            f"{saved}, but {' and '.join(above)} are implausible (limit: {limit:.0%}), so these scores mean "
            "nothing yet. Next step: look at the answers; if they are right, raise max_implausible "
            "(docs/troubleshooting.md)"
        )


@dataclass(frozen=True)
class Answers:
    """The answers of one system to one setting, with data shared by several checks."""

    responses: Sequence[Response]
    replies: Sequence[str]
    """Unprocessed replies, thinking included, in the order of the responses."""
    setting: Setting | None
    benchmark: Benchmark | None
    """Source of the published passage ids; None: their origin is not checked."""

    @cached_property
    def words(self) -> list[list[str]]:
        """Words of each answer, in lower case."""
        return [_words(response.text) for response in self.responses]

    @cached_property
    def targets(self) -> list[list[str]]:
        """Words of each reference answer."""
        return [_words(response.task.target) for response in self.responses]

    @cached_property
    def in_other_languages(self) -> list[tuple[int, str]]:
        """Result of `_other_language`."""
        return list(_other_language(self))

    @cached_property
    def around(self) -> frozenset[str]:
        """Every word of conversations, reference answers and passages."""
        texts = frozenset(text for response in self.responses for text in _surroundings(response))
        return _words_of(texts) | {word for target in self.targets for word in target}

    @cached_property
    def vocabulary(self) -> list[str]:
        """Words of conversations, targets, passages and answers (without each answer's last word), sorted."""
        return sorted(self.around.union(*(words[:-1] for words in self.words)))


@lru_cache(maxsize=4)
def _words_of(texts: frozenset[str]) -> frozenset[str]:
    """Return every word of some texts; cached, since several systems have the same conversations and passages."""
    return frozenset(word for text in texts for word in _words(text))


Matches = Iterable[tuple[int, str]]
"""(Index of an answer, excerpt)."""


@dataclass(frozen=True, slots=True)
class Check:
    """One type of implausible answer."""

    description: str
    """Description of the matches, printed after their number."""
    find: Callable[[Answers], Matches]
    false_alarms: float = 0.0
    """Share of undamaged answers that match: the highest of any file of real answers, or a bound above zero."""
    counts: bool = True
    """Whether matches are implausible; otherwise, they are only shown."""
    recall: float = 1.0
    """Share of damaged answers that match, as measured on MTRAG-UN (`perf/plausibility.py`)."""


_CHANCE = 0.001
"""Matches are reported if at least as many false alarms have a smaller probability than this."""


def _check_named(name: str) -> Check:
    """Return a check by its name; for an unknown check, every match counts."""
    return CHECKS.get(name) or Check(name, lambda _: ())


def find_implausible(
    responses: Sequence[Response],
    replies: Sequence[str] = (),
    *,
    setting: Setting | None = None,
    benchmark: Benchmark | None = None,
) -> list[dict[str, str]]:
    """Return check -> excerpt, for each response; {} for a plausible or missing answer."""
    from scipy.special import bdtrc

    indexes = [index for index, response in enumerate(responses) if not response.no_answer]
    texts = replies or [response.text for response in responses]
    answers = Answers([responses[index] for index in indexes], [texts[index] for index in indexes], setting, benchmark)
    matches_by_response: list[dict[str, str]] = [{} for _ in responses]
    for name, check in CHECKS.items():
        matches = dict(check.find(answers)) if indexes else {}
        if matches and bdtrc(len(matches) - 1, len(indexes), check.false_alarms) < _CHANCE:
            for index, excerpt in matches.items():
                matches_by_response[indexes[index]][name] = _short(excerpt)
    return matches_by_response


def check_answers(
    label: str, answers: Sequence[ScoredAnswer], benchmark: Benchmark | None
) -> tuple[CheckedAnswers, list[ScoredAnswer]]:
    """Check the answers of one system in one setting.

    Args:
        label: name and version of the benchmark, and the setting, for messages.
        answers: scored answers, with samples that contain the replies.
        benchmark: source of the published passage ids; None: their origin is not checked.

    Returns:
        The matches, and the answers with `implausible` and `turn_error` set.
    """
    responses = [answer.response for answer in answers]
    replies = [_first_reply(answer.sample) for answer in answers]
    setting = Setting(answers[0].setting) if answers else None
    matches_by_task: list[tuple[str, Mapping[str, str]]] = []
    marked: list[ScoredAnswer] = []
    matches = find_implausible(responses, replies, setting=setting, benchmark=benchmark)
    for answer, names in zip(answers, matches, strict=True):
        if not answer.response.no_answer:
            matches_by_task.append((answer.task.task_id, names))
        marked.append(with_turn_error(answer if answer.response.no_answer else replace(answer, implausible=names)))
    return CheckedAnswers(label, tuple(matches_by_task)), marked


def with_turn_error(answer: ScoredAnswer) -> ScoredAnswer:
    """Return an answer with the error of its turn, unless the request failed."""
    if answer.response.no_answer:
        return answer
    error = turn_error(answer.response, IdkVerdict(answer.idk) if answer.idk else None, answer.implausible)
    return replace(answer, turn_error={"kind": error.kind.value, "reason": error.reason} if error else {})


def plausibility_of(answers: Iterable[ScoredAnswer]) -> dict[str, Any]:
    """Return the entry of results on the plausibility of answers; {} if no answer was checked."""
    matches = tuple((answer.task.task_id, answer.implausible) for answer in answers if answer.implausible is not None)
    if not matches:
        return {}
    checked = CheckedAnswers("", matches)
    rows = [{**asdict(result), "share": result.share} for result in checked.summary]
    return {"plausibility": {"n": len(matches), "n_implausible": checked.n_implausible, "checks": rows}}


def _first_reply(sample: Mapping[str, Any]) -> str:
    try:
        return str(sample["resps"][0][0] or "")
    except (LookupError, TypeError):
        return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _joined(text: str) -> str:
    return " ".join(_words(text))


def _short(text: str) -> str:
    return excerpt(" ".join(text.split()), _LONGEST_EXCERPT)


def _surroundings(response: Response) -> Iterator[str]:
    yield from (message.text for message in response.task.messages)
    yield from (passage.text for passage in response.passages)


def _texts(condition: Callable[[str], object]) -> Callable[[Answers], Matches]:
    """Return a search for answers whose text alone meets a condition."""
    return lambda answers: (
        (index, response.text) for index, response in enumerate(answers.responses) if condition(response.text)
    )


def _without_text(text: str) -> bool:
    return not any(map(str.isalnum, text))


def _empty(answers: Answers) -> Matches:
    return ((index, text) for index, text in _texts(_without_text)(answers) if _without_text(answers.replies[index]))


def _emptied(answers: Answers) -> Matches:
    replies = ((index, answers.replies[index]) for index, _ in _texts(_without_text)(answers))
    return ((index, reply) for index, reply in replies if not _without_text(reply))


_LEAST_LOOP = 30  # words
_LOOP = 4  # words that are repeated


def _looping(answers: Answers) -> Matches:
    """Yield answers of at least 30 words in which most runs of four words repeat an earlier run."""
    for index, words in enumerate(answers.words):
        runs = len(words) - _LOOP + 1
        if len(words) >= _LEAST_LOOP and 2 * len({tuple(words[start : start + _LOOP]) for start in range(runs)}) < runs:
            yield index, f"... {answers.responses[index].text[-40:]}"


_TEMPLATE_MARK = re.compile(
    r"<\|(?:im_start|im_end|eot_id|begin_of_text|end_of_text|endoftext|(?:start|end)_header_id|end|eom_id)\|>"
    r"|</s>|<unk>|\[/?INST\]|<(?:start|end)_of_turn>|<\uff5c[^<>]{1,30}\uff5c>|<\|(?:channel|message|return)\|>"
    r"|\A\s*assistant[ \t]*\n|(?<=[.!?\s])assistantfinal(?=\w)"  # marks without brackets, which the tokenizer left out
)
_OWN_TURN = re.compile(r"\n\W{0,4}(?:user|human)\W{0,3}:.*\n\W{0,4}(?:assistant|ai|bot)\W{0,3}:", re.DOTALL | re.I)


def _running_on(answers: Answers) -> Matches:
    """Yield answers followed by invented turns, or with marks of a chat template."""
    for index, response in enumerate(answers.responses):
        match = _TEMPLATE_MARK.search(response.text) or _OWN_TURN.search(response.text)
        if match:
            yield index, f"... {response.text[max(0, match.start() - 20) :]}"


_THOUGHT = re.compile(
    r"\W*(?:(?:okay|ok|alright|hmm+|wait|so|now|first)\W+(?:\w+\W+){0,2}?)?"
    r"(?:the user (?:is (?:asking|looking)|wants|asks|asked|has asked)"
    r"|let(?: me|'s) (?:think|see what|look at|\w+ out)"
    r"|analysis(?:we|the|user|need|let|i)\b"  # name of a channel, without its marks
    r"|(?:we|i) (?:need|have) to (?:answer|\w+ out|find|check|determine|look|respond)"
    r"|i should (?:answer|check|respond))",
    re.I,
)


_LATIN = re.compile(r"(?<!\w)[a-z\u00df-\u00ff]{3,}(?!\w)")
_LEAST_LATIN = 6  # words
_LEAST_VOCABULARY = 2000  # words: a smaller vocabulary is too incomplete
_LONGEST_WORD = 60
_LEAST_NUMBERS = 20
_ARTICLES = frozenset({"the", "a", "an"})
_NEVER_AFTER_AN_ARTICLE = "the a an of and or to is are was were be in on at by for with from that which it"
_NEVER_AFTER = frozenset(_NEVER_AFTER_AN_ARTICLE.split())
_LEAST_MISPLACED = 2  # articles before a word that never follows an article
_MISPLACED_SHARE = 0.2
_DECODED_WRONGLY = re.compile("\u00c3[\u0080-\u00bf\u2018-\u2122]|\u00e2\u20ac|\ufffd")
_SUBWORD_MARK = re.compile("[\u2581\u0120]\\w")  # notation of tokenizers for the space before a word


def _garbled(answers: Answers) -> Matches:
    """Yield answers of unknown or shuffled words, codes, numbers, or wrongly decoded characters.

    Only lower-case Latin words are looked up (others may be names), and not in answers in another language. Word order
    is checked for English.
    """
    foreign_indexes = {index for index, _ in answers.in_other_languages}
    for index, (response, words) in enumerate(zip(answers.responses, answers.words, strict=True)):
        latin = _LATIN.findall(response.text)
        n_unknown = sum(word not in answers.around for word in latin)
        is_mostly_unknown = len(latin) >= _LEAST_LATIN and 2 * n_unknown > len(latin) and index not in foreign_indexes
        followers = [follower for word, follower in pairwise(words) if word in _ARTICLES]
        n_misplaced = sum(word in _NEVER_AFTER for word in followers)
        is_shuffled = n_misplaced >= _LEAST_MISPLACED and n_misplaced > _MISPLACED_SHARE * len(followers)
        is_code = 2 * sum(len(word) for word in words if len(word) > _LONGEST_WORD) > len(response.text)
        is_numbers = len(words) >= _LEAST_NUMBERS and sum(map(str.isdigit, words)) > _NEARLY_ALL * len(words)
        is_undecoded = len(_DECODED_WRONGLY.findall(response.text)) > 1
        is_undecoded |= 2 * len(_SUBWORD_MARK.findall(response.text)) > max(2, len(response.text.split()))
        has_unknown_words = is_mostly_unknown and len(answers.around) >= _LEAST_VOCABULARY
        if has_unknown_words or is_shuffled or is_code or is_numbers or is_undecoded:
            yield index, response.text


_FULL_ANSWER = 20  # words
_YES_OR_NO = {"yes", "no"}


def _bare(answers: Answers) -> Matches:
    """Yield answers of one or two words, except yes and no, if the reference answer is a text."""
    for index, (words, target) in enumerate(zip(answers.words, answers.targets, strict=True)):
        if 0 < len(words) <= 2 and len(target) >= _FULL_ANSWER and not _YES_OR_NO & set(words):
            yield index, answers.responses[index].text


_LEAST_REPEATS = 3
_LEAST_WORDS = 4  # "Yes.", "No.", "You are welcome." are right for many questions
_NEARLY_ALL = 0.9


def _identical(answers: Answers) -> Matches:
    """Yield answers that are word for word equal to at least two answers to other tasks.

    Equal answers are ignored if their tasks have at most half as many different reference answers. A refusal, one or
    two words, or a quoted passage may be right for many tasks: they match only if nearly all answers are that text. For
    other texts, tasks without an answer are left out if they are at least half.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for index, words in enumerate(answers.words):
        if words:
            groups[" ".join(words)].append(index)
    for indexes in groups.values():
        targets = {" ".join(answers.targets[index]) or answers.responses[index].task.question for index in indexes}
        if len(indexes) < _LEAST_REPEATS or len(targets) <= len(indexes) / 2:
            continue
        response = answers.responses[indexes[0]]
        is_all = len(indexes) >= _NEARLY_ALL * len(answers.responses)
        words = answers.words[indexes[0]]
        if not is_all and (len(words) < _LEAST_WORDS or _refuses(response) or _quoted(" ".join(words), response)):
            continue
        answerable = [index for index in indexes if answers.responses[index].task.answerability in _ANSWERED]
        is_all = is_all or 2 * len(answerable) > len(indexes)
        yield from ((index, answers.responses[index].text) for index in (indexes if is_all else answerable))


_FRAME = 4  # consecutive words
_LEAST_FRAMED, _FRAMED_SHARE = 5, 0.05  # different answers with such a run
_DENIALS = re.compile(r"\b(?:sorry|unable|unfortunately|unknown|lacks?|leider|désolé|lamentablemente)\b", re.I)


def _templated(answers: Answers) -> Matches:
    """Yield answers if at least half of their words belong to a frame shared with other answers.

    A frame consists of runs of four words that occur in at least five different answers and in 5 % of them. Runs of the
    passages or the conversation do not count. Refusals with a negation may be similar, and so may clarifying questions
    on underspecified tasks.
    """
    texts = {tuple(words) for words in answers.words}
    n_of = Counter(run for words in texts for run in set(_runs(words)))
    frames = {run for run, n in n_of.items() if n >= max(_LEAST_FRAMED, _FRAMED_SHARE * len(texts))}
    for index, (response, words) in enumerate(zip(answers.responses, answers.words, strict=True)):
        if response.task.answerability is Answerability.UNDERSPECIFIED or not _is_framed(words, frames):
            continue
        around = {run for text in _surroundings(response) for run in _runs(_words(text))}
        denies = _DENIALS.search(response.text) or any(map(is_negation, response.text.lower().split()))
        if _is_framed(words, frames - around) and not (denies and _refuses(response)):
            yield index, response.text


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_FRAME)), strict=False)


def _is_framed(words: Sequence[str], frames: Collection[tuple[str, ...]]) -> bool:
    inside = {start + shift for start, run in enumerate(_runs(words)) if run in frames for shift in range(_FRAME)}
    return bool(inside) and 2 * len(inside) >= len(words)


_ANSWERED = {Answerability.ANSWERABLE, Answerability.PARTIAL}


def _refuses(response: Response) -> bool:
    (label,) = NgramIdk().detect([response])
    return label.verdict is not IdkVerdict.NO


_NEVER_LAST = (
    "a an the and or but of to for with by from at in on as is are was were be been than that which who whose if "
    "when while because their his its your our my this these such into between through about can will may would "
    "should has have had not also including either both more most each every some any other"
)
_OPEN_WORDS = frozenset(_NEVER_LAST.split())
_ENDS_OPEN = re.compile(r"[:,(\[{\u2013\u2014&-]$|\s[\"\u201c\u2018'(]$")
_ENDED = re.compile(r"\W$")
_LIST_MARK = re.compile(r"(?:\n|^)\s*(?:[-*\u2022]|\d{1,2}[.)])$")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S*$|\S+@\S+$|\S+\.\w+$|\S*[/\\_=$]\S*$")
_SENTENCE = 4  # minimum words of a sentence or a part of one


def _cut_off(answers: Answers) -> Matches:
    """Yield answers that break off: within a word, after a word that cannot end a sentence, or after a comma or colon.

    About half of the answers cut by a token limit end like this; the others look like answers without a full stop.
    """
    for index, (response, words) in enumerate(zip(answers.responses, answers.words, strict=True)):
        text = response.text.rstrip()
        if len(words) >= _SENTENCE and _breaks_off(text, words[-1], answers):
            yield index, f"... {text[-40:]}"


def _breaks_off(text: str, last: str, answers: Answers) -> bool:
    if _LIST_MARK.search(text):
        return text.count("\n") > 0
    if _ENDS_OPEN.search(text):
        return True
    line = text.rpartition("\n")[2]
    if _ENDED.search(text) or _ADDRESS.search(text) or len(_words(line)) < 2:
        return False
    return last in _OPEN_WORDS or _is_fragment(last, answers.vocabulary)


def _is_fragment(word: str, vocabulary: Sequence[str]) -> bool:
    """Return whether a word is unknown but the beginning of a known word."""
    next_entries = vocabulary[bisect_left(vocabulary, word) :][:1]
    return word.isalpha() and next_entries != [word] and any(entry.startswith(word) for entry in next_entries)


_SHARED = 12  # words
_TO_A_MODEL = re.compile(
    r"(?:system )?(?:you (?:are|must|should|will)|your (?:task|job|role)|answer|respond|reply|use the|given the|act as"
    r"|du bist|sie sind|beantworte|antworte|tu es|vous êtes|répond\w+|eres|responde|usted es|você é|sei un) "
)


def _wrapped(answers: Answers) -> Matches:
    """Yield answers in a wrapping, and answers that begin with instructions to a model shared by most answers."""
    starts = [" ".join(words[:_SHARED]) for words in answers.words]
    shared = {start for start, n in Counter(starts).items() if n >= max(_LEAST_REPEATS, len(starts) / 2)}
    for index, response in enumerate(answers.responses):
        is_prompt = starts[index] in shared and len(answers.words[index]) > _SHARED and _TO_A_MODEL.match(starts[index])
        if is_prompt or is_wrapped(response.text):
            yield index, response.text


_SPEAKER = re.compile(r"\W*(?:user|human|question|assistant|system|q|<\|?\w+\|?>)\W+")
_LEAST_ECHO = 5  # words of a repeated message


def _echo(answers: Answers) -> Matches:
    """Yield answers that begin with the conversation, or contain consecutive messages of it."""
    for index, response in enumerate(answers.responses):
        messages = [_joined(message.text) for message in response.task.messages]
        text = _joined(response.text)
        head = " ".join(_SPEAKER.sub(" ", text, count=1).split()) if _SPEAKER.match(text) else text
        starts = [message for message in (messages[0], messages[-1]) if len(message.split()) >= _LEAST_ECHO]
        in_turn = any(
            f"{first} {second}" in text or (first in text and second in text)
            for first, second in pairwise(messages)
            if len(first.split()) >= _LEAST_ECHO and len(second.split()) >= _LEAST_ECHO
        )
        begins = any(text.startswith(message) or head.startswith(message) for message in starts)
        if (in_turn or begins) and not _quoted(messages[-1], response):
            yield index, response.text


def _quoted(text: str, response: Response) -> bool:
    """Return whether a passage of the response contains a text, as pages of questions and answers do."""
    return any(text in _joined(passage.text) for passage in response.passages)


def _other_language(answers: Answers) -> Matches:
    """Yield answers in another language than the user's messages, which are read together: one is often too short.

    If all are too short, the language of most other conversations is expected.
    """
    questions = [
        language_of(" ".join(message.text for message in response.task.messages[::-2]))
        for response in answers.responses
    ]
    usual = Counter(language for language in questions if language).most_common(1)
    for index, (response, own) in enumerate(zip(answers.responses, questions, strict=True)):
        language, expected = language_of(response.text), own or (usual[0][0] if usual else None)
        if language is not None and expected is not None and language != expected:
            yield index, f"({language}) {response.text}"


_MARGIN = 0.15
_LEAST_FIT = 0.25
_LEAST_REPLY_FIT = 0.6  # answers to follow-up questions repeat parts of earlier replies
_RIGHT_FIT = 0.2  # to its own reference answer: a shuffled answer rarely reaches it
_NEAR_TWINS = 0.4
_SAME_TEXT = 0.8


class _Rarity:
    """Weights of words by their rarity in a set of texts, so that words of a shared topic have little weight."""

    def __init__(self, texts: Sequence[Collection[str]]) -> None:
        self._spread = Counter(word for words in texts for word in words)
        self._n = len(texts)
        self._weights = {word: math.log((self._n + 1) / n) for word, n in self._spread.items()}

    def weigh(self, words: Collection[str]) -> float:
        unseen = math.log(self._n + 1)
        return sum(self._weights.get(word, unseen) for word in words)

    def rare(self, words: Collection[str]) -> list[str]:
        return [word for word in words if self._spread[word] <= max(3, self._n // 10)]

    def fit(self, words: Collection[str], other_words: Collection[str]) -> float:
        """Return the weighted Dice coefficient of two texts, 0 to 1; only rare words count as shared."""
        both = self.weigh(words) + self.weigh(other_words)
        return 2 * self.weigh(self.rare(set(words) & set(other_words))) / both if both else 0.0


def _misplaced(answers: Answers) -> Matches:
    """Yield answers that fit another task's reference answer, or an earlier reply, clearly better than their own.

    Near-twins are left out: tasks with similar questions or reference answers, and tasks whose own answer fits their
    reference answer as well as this answer does. So are parts of a passage, and refusals similar to an earlier one.
    """
    answer_words, targets = [set(words) for words in answers.words], [set(words) for words in answers.targets]
    questions = [set(_words(response.task.question)) for response in answers.responses]
    rarity, of_questions = _Rarity(targets), _Rarity(questions)
    own = [rarity.fit(*pair) for pair in zip(answer_words, targets, strict=True)]

    def is_twin(index: int, other_index: int, fit: float) -> bool:
        is_alike = rarity.fit(targets[index], targets[other_index]) >= _NEAR_TWINS
        is_asked_twice = of_questions.fit(questions[index], questions[other_index]) >= _NEAR_TWINS
        return (
            is_alike
            or is_asked_twice
            or (own[other_index] >= fit and rarity.fit(answer_words[index], answer_words[other_index]) < _SAME_TEXT)
        )

    def fitting(index: int, fits: Mapping[int, float]) -> Iterator[str]:
        """Yield the names of the texts that an answer fits better, other tasks first."""
        least = max(_LEAST_FIT, own[index] + _MARGIN) if targets[index] else _SAME_TEXT
        for other_index, fit in sorted(fits.items(), key=lambda pair: -pair[1]):
            if fit >= least and other_index != index and not is_twin(index, other_index, fit):
                yield answers.responses[other_index].task.task_id
        for message in (response := answers.responses[index]).task.messages:
            reply = set(_words(message.text)) if message.role is Role.ASSISTANT else set()
            is_fitting = len(reply) >= _LEAST_ECHO and rarity.fit(answer_words[index], reply) >= max(
                least, _LEAST_REPLY_FIT
            )
            if is_fitting and rarity.fit(targets[index], reply) < _NEAR_TWINS and not _refuses(response):
                yield "an earlier reply"

    for index, fits in enumerate(_fits(answers, rarity, answer_words, targets)):
        response, name = answers.responses[index], next(fitting(index, fits), "")
        if name and own[index] < _RIGHT_FIT and not _quoted(" ".join(answers.words[index]), response):
            yield index, f"fits {name}: {response.text}"


def _fits(
    answers: Answers, rarity: _Rarity, answer_words: Sequence[Collection[str]], targets: Sequence[Collection[str]]
) -> Iterator[Mapping[int, float]]:
    """Yield, for each answer, index of a reference answer -> fit; targets of tasks without an answer are left out."""
    from scipy.sparse import csr_matrix

    rare = rarity.rare(set().union(*targets))
    numbers = {word: number for number, word in enumerate(rare)}

    def matrix(texts: Iterable[Collection[str]]) -> Any:
        cells = [(row, numbers[word]) for row, words in enumerate(texts) for word in words if word in numbers]
        rows, columns = ([pair[side] for pair in cells] for side in (0, 1))
        return csr_matrix((np.ones(len(cells)), (rows, columns)), shape=(len(answer_words), len(rare)))

    of_answered = (response.task.answerability in _ANSWERED for response in answers.responses)
    counted = matrix(words if counts else () for words, counts in zip(targets, of_answered, strict=True))
    weights = np.array([rarity.weigh([word]) for word in rare])
    shared = (matrix(answer_words) @ counted.multiply(weights).T.tocsc()).tocsr()
    own, mass = (
        np.array([rarity.weigh(words) for words in answer_words]),
        np.array([rarity.weigh(words) for words in targets]),
    )
    for index in range(len(answer_words)):
        row = slice(shared.indptr[index], shared.indptr[index + 1])
        target_indexes = shared.indices[row]
        yield dict(
            zip(
                target_indexes.tolist(),
                (2 * shared.data[row] / (own[index] + mass[target_indexes])).tolist(),
                strict=True,
            )
        )


_LEAST_LEAKED = 12  # consecutive words: too many to match the reference answer by chance
_LEAST_PASTED = 40


def _leaked(answers: Answers) -> Matches:
    """Yield answers that contain their reference answer word for word, unless a passage contains it.

    Refusals are left out: any system may use a benchmark's usual refusal.
    """
    for index, (response, target) in enumerate(zip(answers.responses, answers.targets, strict=True)):
        is_long = len(target) >= _LEAST_LEAKED and response.task.answerability in _ANSWERED
        text = " ".join(target)
        if is_long and _contains(answers.words[index], text) and not _quoted(text, response):
            yield index, response.text


def _pasted(answers: Answers) -> Matches:
    for index, (response, words) in enumerate(zip(answers.responses, answers.words, strict=True)):
        passages = (_words(passage.text) for passage in response.passages) if len(words) >= _LEAST_PASTED else ()
        if any(len(passage) >= _LEAST_PASTED and _contains(words, " ".join(passage)) for passage in passages):
            yield index, response.text


def _contains(words: Sequence[str], text: str) -> bool:
    return f" {text} " in f" {' '.join(words)} "


_TO_A_JUDGE = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.!?\n]{0,40}\b(?:rubric|instructions?|criteria|guidelines|grading)\b"
    r"|\b(?:rate|score|grade)\b[^.!?\n]{0,20}\b(?:response|answer|reply)\b[^.!?\n]{0,30}\b(?:10|5|ten|five|highest|maximum)\b"
    r"|\b(?:reply|respond|answer|output|return)\b[^.!?\n]{0,30}\b(?:rating|score|grade|verdict)\b[^.!?\n]{0,20}\b\d"
    r"|\byou are (?:the|an?)\b[^.!?\n]{0,20}\b(?:judge|grader|evaluator)\b|\[\[ *\d+ *\]\]",
    re.IGNORECASE,
)


def _to_a_judge(answers: Answers) -> Matches:
    """Yield answers that address their judge, unless the conversation, passages or target have such words too."""
    for index, response in enumerate(answers.responses):
        match = _TO_A_JUDGE.search(response.text)
        if match and not any(map(_TO_A_JUDGE.search, (*_surroundings(response), response.task.target))):
            yield index, f"... {response.text[max(0, match.start() - 20) :]}"


_ASKS = re.compile(
    r".*[?\uff1f\u061f]\W*$|(?:so )?please (?:clarify|specify|explain|provide|share|give|tell|let me know)\b",
    re.S | re.I,
)
_MOST_BEFORE_A_QUESTION = 20  # words
_MOST_SHARED = 0.2
_LONG_WORD = 4  # letters


def _asking_back(answers: Answers) -> Matches:
    """Yield answers to answerable tasks that only ask the user a question, after a polite sentence or two.

    An answer before the question ("It opens at nine. Anything else?") shares words with the reference answer.
    """
    for index, (response, target) in enumerate(zip(answers.responses, answers.targets, strict=True)):
        text = response.text.strip()
        sentences = [text[start:end].strip() for start, end in pairwise([0, *sentence_ends(text), len(text)])]
        is_asked = _ASKS.match(sentences[-1]) and not _ASKS.match(response.task.target)
        if not is_asked or response.task.answerability not in _ANSWERED:
            continue
        spoken = {word for message in response.task.messages for word in _words(message.text)}
        words_before = [word for sentence in sentences if not _ASKS.match(sentence) for word in _words(sentence)]
        content = {word for word in words_before if len(word) >= _LONG_WORD or word.isdigit()} - spoken
        is_answer = _YES_OR_NO & set(words_before) or len(content.intersection(target)) > _MOST_SHARED * len(content)
        if len(words_before) <= (_MOST_BEFORE_A_QUESTION if target else 0) and not is_answer:
            yield index, text


def _unseen_citations(answers: Answers) -> Matches:
    """Yield answers that cite a number above that of the last passage, or a file that no passage has.

    Citations that occur in the conversation or passages are ignored.
    """
    for index, response in enumerate(answers.responses):
        n, around = len(response.passages), "\n".join(_surroundings(response)).casefold()
        unseen = [
            citation
            for citation in unseen_citations(response.text, response.passages)
            if citation.casefold() not in around
        ]
        if n and unseen:
            yield index, f"{unseen[0]} of {n}: {response.text}"


def _textless(answers: Answers) -> Matches:
    for index, response in enumerate(answers.responses):
        bare = [passage.passage_id for passage in response.passages if not passage.text.strip()]
        if bare:
            yield index, f"passage {bare[0]}"


_MIN_PUBLISHED_SHARE = 0.05
_ENOUGH_ANSWERS = 5


def _foreign(answers: Answers) -> Matches:
    """Yield answers most of whose passages the benchmark publishes only in other corpora."""
    for index, ids, domains in _origins(answers):
        domain = answers.responses[index].task.domain
        elsewhere = [name for name, corpora in zip(ids, domains, strict=True) if corpora and domain not in corpora]
        if 2 * len(elsewhere) > len(ids):
            yield index, f"passage {elsewhere[0]}"


def _unknown(answers: Answers) -> Matches:
    """Yield answers without a published passage id, if nearly all answers are like this.

    Unpublished ids may be from the rest of the corpus, but no retriever returns only those.
    """
    origins = list(_origins(answers))
    unknown = [(index, f"passage {ids[0]}") for index, ids, domains in origins if not any(domains)]
    if len(origins) >= _ENOUGH_ANSWERS and len(unknown) > (1 - _MIN_PUBLISHED_SHARE) * len(origins):
        yield from unknown


def _origins(answers: Answers) -> Iterator[tuple[int, list[str], list[set[str]]]]:
    """Yield (index, ids of its named passages, corpora of each) of answers that name any, if corpora are known."""
    corpus_of = _published_ids(answers.benchmark) if answers.benchmark else {}
    for index, response in enumerate(answers.responses):
        ids = [passage.passage_id for passage in response.passages if not passage.passage_id.startswith(UNNAMED)]
        if ids and corpus_of:
            yield index, ids, [corpus_of.get(name, set()) for name in ids]


def _published_ids(benchmark: Benchmark) -> dict[str, set[str]]:
    """Return passage id -> corpora in which the benchmark publishes it."""
    corpora: dict[str, set[str]] = defaultdict(set)
    domain_of = {task.task_id: task.domain for task in benchmark.tasks}
    for task in benchmark.tasks:
        for passage in task.references:
            corpora[passage.passage_id].add(task.domain)
    for setting in Setting:
        for task_id, passages in _published(benchmark, setting).items():
            for passage in passages:
                corpora[passage.passage_id].add(domain_of[task_id])
    return corpora


def _published(benchmark: Benchmark, setting: Setting) -> Mapping[str, tuple[Passage, ...]]:
    try:
        return {} if setting is Setting.AGENTIC else benchmark.read_contexts(setting).passages
    except RagtasksError:
        return {}  # a benchmark without passages of its own in this setting


def _other_setting(answers: Answers) -> Matches:
    """Yield answers with the passages of another setting of their task, instead of their own setting's."""
    if answers.benchmark is None or answers.setting is None or answers.setting is Setting.AGENTIC:
        return  # a search may return exactly these passages
    benchmark, published = answers.benchmark, _published(answers.benchmark, answers.setting)
    published_by_setting = {
        setting: _published(benchmark, setting) for setting in Setting if setting is not answers.setting
    }
    for index, response in enumerate(answers.responses):
        ids = _ids(response.passages)
        if not ids or ids == _ids(published.get(response.task.task_id, ())):
            continue
        for setting, passages in published_by_setting.items():
            if ids == _ids(passages.get(response.task.task_id, ())):
                yield index, f"those of {setting.value}"
                break


def _ids(passages: Collection[Passage]) -> frozenset[str]:
    return frozenset(passage.passage_id for passage in passages)


CHECKS: Mapping[str, Check] = {
    "empty": Check("are empty", _empty),
    "emptied": Check("contain only an unfinished thought", _emptied),
    "error": Check("are an error message", _texts(is_error_text)),
    "tool_call": Check("call a tool without answering", _texts(is_tool_call)),
    "identical": Check("are word for word the same for different questions", _identical, 0.005),
    "template": Check("share one template", _templated, 0.01, counts=False),
    "cut_off": Check("break off in the middle of a sentence", _cut_off, 0.015, recall=0.4),
    "wrapped": Check("are a program's output, or wrapped in JSON, tags, HTML, a fence or a prompt", _wrapped, 0.005),
    "to_judge": Check("address the judge", _to_a_judge),
    "leaked": Check("contain their reference answer word for word", _leaked, 0.02, counts=False),
    "pasted": Check("contain a complete passage word for word", _pasted, 0.02, counts=False),
    "looping": Check("repeat the same words", _looping),
    "running_on": Check("continue as the user, or contain marks of a chat template", _running_on, 0.005),
    "thinking_aloud": Check("think aloud before they answer", _texts(_THOUGHT.match), 0.005),
    "garbled": Check("are codes, or words unknown to conversation and passages", _garbled, 0.015, recall=0.5),
    "bare": Check("are one or two words, unlike the reference answer", _bare, 0.1, counts=False),
    "echo": Check("repeat the conversation before they answer", _echo, 0.015, recall=0.9),
    "language": Check("are in another language than the question", lambda answers: answers.in_other_languages, 0.01),
    "misplaced": Check(
        "fit another task's reference answer, or an earlier reply, better than their own", _misplaced, 0.02, recall=0.6
    ),
    "asking_back": Check("ask a question although an answer is known", _asking_back, 0.015, recall=0.6),
    "unseen_citations": Check("cite passages that were not shown", _unseen_citations, 0.02, recall=0.75),
    "bare_passages": Check("are based on passages without text", _textless),
    "foreign_passages": Check("are based on passages of another corpus", _foreign, 0.02),
    "unknown_passages": Check("are based on passages with ids unknown to the benchmark", _unknown, 0.02, counts=False),
    "other_setting": Check("are based on the passages of another setting", _other_setting, 0.05),
}
"""Name -> check, in display order."""
