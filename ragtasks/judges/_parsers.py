"""Parsers of a judge's final verdict, in the format that the prompt requests.

Our prompts give every question a code: a hash of all shown text, so no shown text can contain it. The judge writes its
verdict next to the code. Claims of a response about itself, and quotes of it by the judge, have no code and are
ignored. The official prompts have no code: there, the last line in the format of a verdict is used.

Every parser raises `UnparsableReplyError` if the reply has no verdict in that format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ragtasks.errors import JudgeError

LABELS = ("yes", "partial", "no")
YES_NO = ("yes", "no")
HIGHEST_RATING = 10

# Marks that models put around a verdict: bold, code, quote signs, brackets.
_MARKS = r"[ \t>*_`#]*"
_RATING = rf"{_MARKS}\[{{0,2}}{_MARKS}(?P<rating>[0-9]+)(?:[ ]?/[ ]?10|[ ]out[ ]of[ ]10)?{_MARKS}\]{{0,2}}"
_RATING_ONLY = re.compile(rf"{_RATING}{_MARKS}\.?{_MARKS}")
# A longer number (8.5, 7-8, 7/5, 4 or 5) is not the requested integer.
_LONGER_NUMBER = r"[0-9]|[.,][0-9]|[ ]*[-–/~][ ]*[0-9]|[ ]*(?:or|to)[ ]+[0-9]"  # noqa: RUF001
_RATING_THEN_TEXT = re.compile(rf"{_RATING}(?!{_LONGER_NUMBER})")
_RATING_LINE = re.compile(rf"{_MARKS}(?:(?:final|overall|my)[ ])?\[?rating\]?{_MARKS}[:=](?P<rest>.*)", re.IGNORECASE)
_RATING_AT_END = re.compile(r".*[.!?)][ ]+(?:(?:final|overall)[ ])?rating:(?P<rest>[^.!?]*\.?)", re.IGNORECASE)
_BRACKETS_ONLY = re.compile(rf"{_MARKS}(?P<rest>\[\[[0-9]+(?:/10)?\]\]){_MARKS}\.?")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_OPENING_WORD = re.compile(r"(?P<word>[A-Za-z]+)\b(?=\s*(?:[.,;:!\n—–]|-\s|$))")  # noqa: RUF001
_ANNOUNCED = re.compile(
    r"(?:the |my |final )*(?:answer|verdict|label|output\]?|decision)\s*[:=]?\s*(?:is\s+)?", re.IGNORECASE
)
# JSON as the standard library accepts it, token by token, to find the end of a value.
_STRING = r'"[^"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*)*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"  # `int` refuses thousands of digits
_TOKEN = re.compile(
    rf"[ \t\n\r]*(?:(?P<string>{_STRING})|(?P<sign>[][{{}},:])|(?:{_NUMBER}|true|false|null|NaN|-?Infinity))"
)
_KEY, _COLON, _VALUE = frozenset({"string"}), frozenset({":"}), frozenset({"string", "scalar", "[", "{"})
_NEXT_PAIR, _NEXT_ITEM = frozenset({",", "}"}), frozenset({",", "]"})
_FIRST = {"{": _KEY | {"}"}, "[": _VALUE | {"]"}}
_DEEPEST = 200  # nested lists and objects
_LONGEST_RATING = 1_000  # characters: a long run of marks would be tried in every split
_STRIPPED = " \t\n*_`#>\"'[]().!"


class UnparsableReplyError(JudgeError):
    """A reply without a verdict in the requested format."""


def read_coded_rating(reply: str, code: str) -> int:
    """Return the rating, 1 to 10, of the last line `Rating CODE: N`."""
    text = _coded_value(reply, code, "rating")
    return _rating(_RATING_ONLY.fullmatch(text) if len(text) <= _LONGEST_RATING else None)


def read_coded_label(reply: str, code: str, labels: Sequence[str]) -> str:
    """Return the label of the last line `Verdict CODE: LABEL`, in lower case."""
    label = label_in(_coded_value(reply, code, "verdict"))
    if label not in labels:
        raise UnparsableReplyError(f"the verdict is not one of {', '.join(labels)}")
    return label


def read_only_label(reply: str, code: str, labels: Sequence[str]) -> str:
    """Return the label of the last line `Verdict CODE: LABEL`, as written in `labels`. Case does not matter.

    A reply with such lines for two labels is ambiguous and has no verdict.
    """
    by_lower_case = {label.lower(): label for label in labels}
    label = read_coded_label(reply, code, tuple(by_lower_case))
    stated = set(map(label_in, _coded_values(reply, code, "verdict")))
    if len(stated & by_lower_case.keys()) > 1:
        raise UnparsableReplyError("the reply has lines with different verdicts")
    return by_lower_case[label]


def label_in(text: str) -> str:
    """Return a label in lower case, without the marks that models put around it."""
    return text.strip(_STRIPPED).lower()


def _coded_value(reply: str, code: str, name: str) -> str:
    """Return the text after the colon in the last line that begins with `name CODE`."""
    return _coded_values(reply, code, name)[-1].strip()


def _coded_values(reply: str, code: str, name: str) -> list[str]:
    """Return the text after the colon in each line that begins with `name CODE`."""
    line = re.compile(rf"^{_MARKS}{name}{_MARKS}{re.escape(code)}{_MARKS}:(?P<rest>.*)$", re.IGNORECASE | re.MULTILINE)
    values = [match["rest"] for match in line.finditer(reply)]
    if not values:
        raise UnparsableReplyError(f"no line `{name.capitalize()} {code}: ...`")
    return values


def read_coded_object(reply: str, code: str) -> dict[str, Any]:
    """Return the last JSON object of a reply that begins with `{"id": "CODE"`."""
    starts = [match.start() for match in re.finditer(rf'\{{\s*"id"\s*:\s*"{re.escape(code)}"', reply)]
    if not starts:
        raise UnparsableReplyError(f'no JSON object that begins with {{"id": "{code}"')
    try:
        # Not strict: models leave line ends in strings unescaped.
        value, _ = json.JSONDecoder(strict=False).raw_decode(reply, starts[-1])
    except (ValueError, RecursionError) as error:
        raise UnparsableReplyError(f"the JSON object cannot be read: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise UnparsableReplyError("the JSON value is not an object")
    return value


def read_texts(reply: str, code: str, key: str) -> list[str]:
    """Return the texts of `{"id": "CODE", KEY: [text, ...]}` without blank ones; [] for an empty list.

    Whitespace is collapsed: a text with line ends could pass for several texts in a numbered list.
    """
    texts = read_coded_object(reply, code).get(key)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UnparsableReplyError(f'"{key}" is not a list of texts')
    return [" ".join(text.split()) for text in texts if text.strip()]


def read_yes_no(reply: str, code: str, key: str, n: int) -> list[bool]:
    """Return whether each of `n` entries is a yes, from `{"id": "CODE", KEY: {"1": "yes" or "no", ...}}`."""
    return [word == "yes" for word in read_labels(reply, code, key, YES_NO, n)]


def read_labels(reply: str, code: str, key: str, labels: Sequence[str], n: int) -> list[str]:
    """Return one of `labels` for each number 1 to `n`, from `{"id": "CODE", KEY: {"1": label, ...}}`."""
    entries = read_coded_object(reply, code).get(key)
    numbers = [str(number) for number in range(1, n + 1)]
    if not isinstance(entries, dict) or set(entries) != set(numbers):
        raise UnparsableReplyError(f'"{key}" does not contain each number from 1 to {n} once')
    words = [str(entries[number]).strip().lower() for number in numbers]
    if not set(words) <= set(labels):
        raise UnparsableReplyError(f'"{key}" contains labels other than {", ".join(labels)}')
    return words


def read_rating(reply: str) -> int:
    """Return the rating, 1 to 10, of a reply to a prompt without a code: the last line with a rating.

    Such a line begins with `Rating:`, or is only `[[N]]`, or ends the reply after a sentence. If the last such line has
    no integer from 1 to 10, earlier lines are not used instead.
    """
    lines = [line for line in reply.strip().splitlines() if line.strip()]
    values = [match["rest"] for line in lines if (match := _RATING_LINE.match(line) or _BRACKETS_ONLY.fullmatch(line))]
    if lines and (match := _RATING_AT_END.fullmatch(lines[-1])):
        values.append(match["rest"])
    if not values:
        raise UnparsableReplyError("no line `Rating: N`")
    return _rating(_RATING_THEN_TEXT.match(values[-1].strip()[:_LONGEST_RATING]))


def read_label(reply: str) -> str:
    """Return the label of a reply to a prompt without a code, in lower case.

    The last sentence is used if it is only a label, with or without an introduction (`Answer: yes`). Otherwise, a label
    that opens the reply and is set off from the following text is used (`No, it answers.`).
    """
    stripped = reply.strip().strip(_STRIPPED)
    last = _SENTENCE_ENDS.split(stripped)[-1].strip(_STRIPPED)
    for candidate in (last, _ANNOUNCED.sub("", last, count=1).strip(_STRIPPED) if _ANNOUNCED.match(last) else ""):
        if candidate.lower() in LABELS:
            return candidate.lower()
    # Marks around the opening word hide the comma after it.
    opening = _OPENING_WORD.match(re.sub(r"[*_`]", "", stripped))
    if opening and opening["word"].lower() in LABELS:
        return opening["word"].lower()
    raise UnparsableReplyError(f"no separate label out of {', '.join(LABELS)}")


def read_decision(reply: str) -> str:
    """Return `yes` or `no` of the last JSON object in a reply with the key `decision`."""
    decisions = [value["decision"] for value in json_values(reply, "{") if "decision" in value]
    if not decisions:
        raise UnparsableReplyError('no JSON object with "decision"')
    word = decisions[-1].strip().lower() if isinstance(decisions[-1], str) else ""
    if word not in YES_NO:
        raise UnparsableReplyError('"decision" is neither yes nor no')
    return word


def json_values(reply: str, openings: str = "{[") -> list[Any]:
    """Return the outermost JSON objects and lists of a text, in order; [] without any."""
    decoder, ends, values, end = json.JSONDecoder(strict=False), dict[int, int](), [], 0
    for match in re.finditer(f"[{re.escape(openings)}]", reply):
        start = match.start()
        if start < end:
            continue
        if start not in ends:
            _find_ends(reply, start, ends)
        if ends[start] < 0:
            continue
        try:
            value, end = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            continue
        values.append(value)
    return values


def _find_ends(text: str, start: int, ends: dict[int, int]) -> None:
    """Record the end of the JSON value at an opening, and of the values inside it; -1 for incomplete values.

    An incomplete value makes all enclosing open values incomplete, and no opening is followed twice, so the work is
    linear in the length of the text. A decoder started at each of 20,000 open brackets would read the remaining text
    each time.
    """
    opened, at, expected = [start], start + 1, _FIRST[text[start]]
    while opened and (token := _TOKEN.match(text, at)):
        sign = token["sign"]
        token_type = sign or ("string" if token["string"] else "scalar")
        if token_type not in expected or len(opened) > _DEEPEST:
            break
        at = token.end()
        if token_type in _FIRST:
            opened.append(at - 1)
            expected = _FIRST[token_type]
            continue
        if token_type in "]}":
            ends[opened.pop()] = at
        if not opened:
            return
        in_object = text[opened[-1]] == "{"
        if token_type == ",":
            expected = _KEY if in_object else _VALUE
        elif token_type == ":":
            expected = _VALUE
        elif token_type == "string" and expected <= _FIRST["{"]:
            expected = _COLON
        else:
            expected = _NEXT_PAIR if in_object else _NEXT_ITEM
    ends.update(dict.fromkeys(opened, -1))


def _rating(match: re.Match[str] | None) -> int:
    is_balanced = match is not None and match[0].count("[") == match[0].count("]")
    # `int` refuses thousands of digits.
    if match is None or not is_balanced or len(match["rating"]) > 3 or not 1 <= int(match["rating"]) <= HIGHEST_RATING:
        raise UnparsableReplyError(f"the rating is not an integer from 1 to {HIGHEST_RATING}")
    return int(match["rating"])
