"""What a reply's text is before anything is scored: an answer behind a thought, or no answer at all.

All of it is read off the text alone. Nothing here is sure of a short text, so short texts pass.
"""

from __future__ import annotations

import json
import re

_OPENINGS = ("<think>", "<thinking>")

_NAMES_AN_ERROR = re.compile(
    r"""\s*[\[("'`*]*(?:
      (?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b\s*[:(\[{-]                    # openai.RateLimitError: ...
    | (?i:error|fatal)(?i:\ (?:code|type|message|status))?\s*:                    # Error code: 429
    | (?i:https?|error|status|code)(?:/\d\.\d)?(?i:\ (?:error|code|status))*:?\ ?[45]\d\d\s*(?:$|[-:,({\n.])
    | [45]\d\d\ (?:(?:Client|Server)\ Error|Bad\ Request|Unauthorized|Payment\ Required|Forbidden|Not\ Found
        |Request\ Timeout|Payload\ Too\ Large|Too\ Many\ Requests|Internal\ Server\ Error|Bad\ Gateway
        |Service\ Unavailable|Gateway\ Time-?out)\s*(?:$|[-:,;({.\n]|for\b)
    | Traceback\ \(most\ recent\ call\ last\)
    | \{\s*["'](?:error|errors|detail|error_code|status_code)["']\s*:             # {"error": {"message": ...}}
    | (?i:<!doctype\ html|<html[\s>])
    | (?i:this\ model's\ maximum\ context\ length\ is|you\ exceeded\ your\ current\ quota)
    )""",
    re.VERBOSE,
)
_IS_AN_ERROR = re.compile(
    r"""[\s\[(<"'`*]*(?i:
      (?:error|undefined|nan|null|\[object\ object\]|no\ response|no\ output|timeout|generation\ failed)
    | (?:the\ |an?\ )?
      (?:api|internal|server|gateway|upstream|connection|request|read|network|rate[\ -]?limit|unexpected|unknown)
      (?:[\ -](?:api|server|request|response|connection|limit|call))*\ (?:was\ |has\ |has\ been\ |is\ )?
      (?:error(?:\ occurred)?|exceeded|reached|timed?\ ?-?out|timeout|failed|refused|aborted|reset|unavailable)
      (?:\ by\ peer|\ for\ \S+|,?\ (?:please\ )?(?:try|retry)\ again.{0,40})?
    | (?:service|model|bad)\ (?:temporarily\ |is\ )?(?:unavailable|overloaded|gateway)
    | too\ many\ requests | (?:an?\ )?error\ (?:has\ )?occurred.{0,80}
    | (?:failed|unable)\ to\ (?:generate|get)\ (?:an?\ |the\ )?(?:response|answer|completion)
    )[\s\])>"'`*.!]*""",
    re.VERBOSE | re.DOTALL,
)
_CALL = re.compile(
    r"""<(?P<tag>tool_call|function_call|tool|search)\b[^>]*>.*?(?:</(?P=tag)>|$) | <function=.*?(?:</function>|$)
    | <\|(?:python_tag|tool_call\w*)\|>.*$ | \[TOOL_CALLS\].*$""",
    re.VERBOSE | re.DOTALL,
)
_WORDS_BESIDE_A_CALL = 12  # "I will search the documents for that."
_TOOL, _INPUT = {"name", "tool", "function", "action"}, {"arguments", "parameters", "args", "input", "action_input"}
_EXPLAINS = re.compile(r"\W*\w+(?: \w+)?:? ?\d* (?:means|indicates|occurs|refers|happens|is (?:an?|the|returned))\b")


def answer_text(text: str, end_of_thinking: str) -> str:
    """Return what a model answered, without the thinking text before it.

    A reply without a thought is the answer as it came, blanks at its ends included; behind a thought they go with it.
    The answer begins after the last end marker. A reply that opens a thought and never ends it (cut off by the token
    limit) holds no answer: it gives "", which is counted as an empty response.

    Args:
        text: the model's reply.
        end_of_thinking: the marker that ends a thought, such as `</think>`.
    """
    _, marker, rest = text.rpartition(end_of_thinking)
    answer = rest.strip()
    if answer.startswith(_OPENINGS):
        return ""
    return answer if marker else text


def is_error_text(text: str) -> bool:
    """Return whether a text is what a server, a client library or a program writes in the place of an answer.

    An answer about errors ("Error code 429 means that ...") is none.
    """
    return bool((_NAMES_AN_ERROR.match(text) and not _EXPLAINS.match(text)) or _IS_AN_ERROR.fullmatch(text))


def is_tool_call(text: str) -> bool:
    """Return whether a text calls a tool, in one of the forms that models are taught, and answers nothing beside it."""
    rest = _CALL.sub("", text)
    if rest != text:
        return len(rest.split()) <= _WORDS_BESIDE_A_CALL
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    calls = found if isinstance(found, list) else [found]
    return bool(calls) and all(isinstance(one, dict) and _TOOL & one.keys() and _INPUT & one.keys() for one in calls)


def is_no_answer(text: str) -> bool:
    """Return whether a text is no answer at all: without a letter or digit, an error's text, or the call of a tool."""
    return not any(map(str.isalnum, text)) or is_error_text(text) or is_tool_call(text)
