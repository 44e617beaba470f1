"""Detection of replies that are no answer (errors, tool calls, program output), and of wrapped answers.

A text that explains an error, a call or a tag is an answer. So is a text with more than twelve words around a call.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from typing import Any

from ragtasks.thoughts import MENTION

_STATUS = r"""(?:client\ error|server\ error|bad\ request|unauthorized|payment\ required|forbidden|not\ found
    |(?:request|gateway)\ time-?out|payload\ too\ large|too\ many\ requests|resource_exhausted|bad\ gateway
    |internal(?:\ server\ error)?|(?:service\ (?:temporarily\ )?)?unavailable)"""
_ERROR_NAME = re.compile(
    rf"""\W*(?:(?P<exception>(?-i:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Timeout|Exhausted)|[\w.]+\.Timeout)\b)
      (?=\s*(?:[:({{-]|\Z))
    | error\ code:\s*(?:[45]\d\d|10[12]\d)\b
    | (?:(?:api|connection|http|internal|network|server|un\w+)\ )?(?:fatal|error|exception)(?:\ \w+){{0,3}}\s*[:\]!]
    | (?:https?|error|status)(?:/\d(?:\.\d)?)?(?:\ (?:error|code|status))*:?\s?[45]\d\d\b(?:\s+{_STATUS}\b)?
    | (?:(?:client|server)\ error\ )?'?[45]\d\d[\s:-]+(?:{_STATUS}|<none>)(?:'|\b))""",
    re.VERBOSE | re.IGNORECASE,
)
_SYNTAX = re.compile(  # of programs, not of prose
    r"[{}]|\w+://|\w=\w|\w\(\w*=|:\d{4,5}\b|\bErrno|\b0x[\da-f]{4}|\bE(?:CONN|TIMEDOUT|NOTFOUND)"
    r"|\brequest[ _-]?id\b|^\W*nginx\b|status[ _]code|ConnectionPool|object has no attribute|NoneType|keyword argument",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"rate.?limit|quota|overloaded|again|retry|timed?[ -]?out|upstream|too many|api.?key|refused|failed|invalid|memory"
    r"|\bmodel\b|unavailable|slow down|connect|internal error|unauthorized|denied|hang up",
    re.IGNORECASE,
)
_MAX_REASON_WORDS = 8  # a longer text is an explanation
_DEFINES = re.compile(r"\s*[:-]\s*(?:(?i:an?|the|this)|you|your|when|if|raised|thrown|returned)\b")
_EXPLAINS = re.compile(
    r"\b(?:mean(?:s|ing)?|indicat\w+|occurs?|refers?|happens?|signals?|stands for|denotes|describes?|tells|because"
    r"|(?:is|are) (?:an?|raised|returned|thrown|printed|shown|sent|caused|displayed|logged|given|used)"
    r"|(?:raised|returned|thrown|printed|shown|sent) (?:when|if)|(?:when|if|whenever) (?:an?|the|you|your)"
    r"|to (?:fix|resolve|solve))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\{.*\}|\[.*\]|\"[^\"]*\"", re.DOTALL)
_ERROR = re.compile(
    r"""\W*(?:(?:(?:i'm|we're)\ )?sorry,?\ (?:but\ )?|oops\W+)?(?:(?:
      error|undefined|nan|null|no\ response|no\ output|timed?\ ?out|generation\ failed|overloaded|socket\ hang\ up
    | (?:the\ |an?\ |all\ )?(?:api|internal|server|gateway|upstream|connection|request|read|network|rate[\ -]?limit
        |unexpected|unknown|stream|endpoint)(?:[\ -](?:api|server|request|response|connection|limit|call|operation
        |attempts?))*\ (?:was\ |has\ |has\ been\ |is\ )?(?:error(?:\ occurred)?|exceeded|reached|timed?\ ?-?out|failed
        |refused|aborted|reset|unavailable)(?:\ by\ peer|\ for\ \S+|[,.]?\ (?:please\ )?(?:try|retry)\ again.{0,40})?
    | (?:(?:the\ |this\ |that\ )?(?:service|server|model|engine)(?:\ is)?|bad)\ (?:temporarily\ |currently\ )?
      (?:unavailable|overloaded|gateway)(?:(?:[,.:;]|\ with\ other).{0,80})?
    | (?:(?:an?\ )?(?:\w+\ )?error\ (?:has\ )?occurred|something\ went\ wrong|there\ was\ an\ error).{0,160}
    | i\ encountered\ an\ error.{0,80}|too\ many\ requests
    | (?:failed|unable)\ to\ (?:generate|get)\ (?:an?\ |the\ )?(?:response|answer|completion)
    )[\s\])>"'`*.!]* | (?:traceback\ \(most\ recent\ call\ last\):?\s*\n\s*file\b|\[errno\ -?\d+\]|curl:\ \(\d+\)
      |this\ model's\ maximum\ context\ length\ is\ \d|you\ exceeded\ your\ current\ quota|rate\ limit\ reached\ for
      |incorrect\ api\ key\ provided:|(?:the\ )?server\ (?:had\ an\ error\ while|disconnected\ without)|no\ healthy\ up
      |peer\ closed\ connection|connection\ aborted\.'|https?connectionpool\(|upstream\ (?:connect|request)
      |rpc\ error:\ code\ =|_\w*rpcerror\ of|agent\ stopped\ due\ to|could\ not\ parse\ llm\ |model\ \S+\ not\ found
      |\w+\ call\ failed\ with\ status|llama\ runner\ process|\{\s*["']errors?["']\s*:|\d{3},\ message=
      |upstream\ timed\ out|cannot\ connect\ to\ host|failed\ to\ fetch\Z|request\ failed\ with\ stat|context\ deadline
      |error\ sending\ request\ for|the\ remote\ server\ returned|unable\ to\ connect\ to\ the\ server\Z|server\ got
      |the\ model\ \S+\ does\ not\ exist|input\ is\ too\ long\ for\ requested|azure\ has\ not\ provided\ the\ response
      |(?:!doctype\ html[^<>]*>|html\b[^<>]*>|\?xml\b[^<>]*>)\s*(?:<!--.*?-->\s*)*<(?:html|head|body|error)\b).*)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ERROR_KEYS = {"error", "errors", "detail", "error_code", "errorMessage", "exception", "Message"}
_ANSWER_KEYS = {"answer", "response", "output", "result", "text", "content", "message", "generated_text"}
_STATUS_KEYS = ("status", "code", "statusCode", "status_code", "__type", "object")
_FAILED = re.compile(r"\b[45]\d\d\b|error|exception|fail", re.IGNORECASE)
_COMPLETION_KEYS = {
    "choices",
    "candidates",
    "usage",
    "usageMetadata",
    "object",
    "role",
    "stop_reason",
    "created_at",
    "done",
}

_BAR = "\uff5c"
_CALL = re.compile(
    rf"""(?<![^\s>])<(?P<tag>(?:\w+:)?(?:tool_calls?|function_calls?|tool_use|tool|search|invoke))\b[^<>]*>(?!{MENTION})
      (?:(?=\s*[\[{{<]).*?(?:</(?P=tag)>|\Z) | .*?</(?P=tag)>)
    | (?<![`'"“])(?:<tool_call>|\[TOOL_CALLS?\]|<\|python_(?:tag|start)\|>|<\|(?:tool_calls?\w*|START_ACTION)\|?>
      |<function=(?=[\w.-])|<{_BAR}tool▁calls?▁begin{_BAR}>|to=functions\.)
      (?=(?:[\w.-]+>?)?(?:\s*json)?\s*(?:[\[{{(<]|\Z)).*?(?:</function>|</tool_call>|<\|END_ACTION\|>|\Z)
    | \A\W*(?:(?:Thought(?:\ \d+)?:.*?\n[\ *#]*)?Action(?:\ \d+)?:\**\s*
        (?:[^\n]+\n+[\ *#]*Action\ Input:|(?:```\w*\s*)?\{{|\w+\[[^\n]*\]\s*\Z)
      |(?:ChatCompletionMessage\w*|Function)?(?:ToolCall|Call|ToolUseBlock)\(|tool_(?:code|call)\n
      |["'](?:tool_calls|function_?[cC]all)["']\s*:).*\Z
    | \A\s*\[\s*\w+\(\s*\w+\s*=.*\)\s*\]\s*\Z""",
    re.VERBOSE | re.DOTALL,
)
_MAX_WORDS_OUTSIDE_CALL = 12  # "I will search the documents for that."
_TOOL, _INPUT = {"name", "tool", "function", "action"}, {"arguments", "parameters", "args", "input", "action_input"}
_CALLS = ("tool_calls", "function_call", "functionCall", "function")

_PRINTED = re.compile(
    r"""<[\w.]+(?:\ [^\n]*)?\b0x[\da-f]+[^\n]*> | \[object\ \w+\] | Promise\ \{[^\n]*\} | \[(?:Async)?Function[^\n]*\]
    | <(?:coroutine|(?:async_)?generator|function|bound\ method|class|Task|Future|Response|\w*Stream)\b[^\n]*>
    | (?:[\w$]+\.)+[\w$]+@[\da-f]{5,8} | System(?:\.\w+)+`\d\[.*\] | [&*]?\(?0x[\da-f]{6,}\)? | tensor\(\[.*""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_EVENT = re.compile(r"(?:event|id|retry|data)?:|[\da-f]:[\"\[{]")  # of a stream
_FENCE = re.compile(
    r"```[ \t]*(?:json|markdown|md|text|txt|plaintext|html|xml|yaml)?[ \t]*\n(?P<body>.*?)(?:\n?```)?\s*", re.DOTALL
)
_WRAPPED = re.compile(
    r"""<(?P<tag>answer|response|output|final_answer|result)>.*</(?P=tag)>\Z
    | <(?:!doctype\ html|html|body|div|p|h[1-6]|[uo]l|table|article|section)\b[^<>]*>.*</\w+>
    | (?:[A-Z]\w+\(\s*)?(?:content|text|response|answer)=["'\[] | (?-i:\[?[A-Z]\w+\(\w+=.*\)\]?\Z)
    | \W*(?:system\W+)?(?:you\ are\ (?:an?|the)\ [\w\ ,-]{0,60}\b(?:ai|assistant|chatbot|language\ model)\b
      |below\ is\ an\ instruction\ that\ describes|\#+\ ?instructions?:\s)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_FIELD = re.compile(r"""[{\[]\s*\{?\s*["']\w[\w -]{0,30}["']\s*:\s*["'[{]""")
_PROSE = 6  # words


def is_no_answer(text: str) -> bool:
    """Return whether a text is no answer: no letter or digit, an error, a tool call, or program output."""
    return not any(map(str.isalnum, text)) or is_error_text(text) or is_tool_call(text) or _is_output(text)


def is_error_text(text: str) -> bool:
    """Return whether a text is only an error, as a server, a client library or a program prints it.

    False for an answer about errors ("Error code 429 means that ...").
    """
    if isinstance(value := _parsed(text), dict):
        message = str(value.get("message") or "")
        is_error_message = re.fullmatch(_STATUS, message, re.VERBOSE | re.IGNORECASE) or (
            message and is_error_text(message)
        )
        has_failed = is_error_message or _FAILED.search(" ".join(str(value.get(key)) for key in _STATUS_KEYS))
        is_error = has_failed or any(value.get(key) for key in _ERROR_KEYS)
        return bool(is_error and not any(value.get(key) for key in _ANSWER_KEYS - {"message"}))
    if _EXPLAINS.search(_QUOTED.sub(" ", text)):
        return False
    if not (named := _ERROR_NAME.match(text)):
        return _ERROR.fullmatch(text) is not None
    after = text[named.end() :]
    n_words = len(after.split())
    is_short = (
        after.strip().isdigit()
        or (n_words <= 2 and named[0][-1] not in ":]!")
        or (n_words <= _MAX_REASON_WORDS and _REASON.search(after))
    )
    is_exception = named["exception"] and not _DEFINES.match(after)
    is_nested = _ERROR_NAME.match(after) or _ERROR.fullmatch(after)
    return bool(is_short or is_exception or is_nested or _SYNTAX.search(after))


def is_tool_call(text: str) -> bool:
    """Return whether a text is a tool call, in one of the formats that models are trained on, without an answer."""
    outside = _CALL.sub(" ", text)
    if outside != text:
        return len(outside.split()) <= _MAX_WORDS_OUTSIDE_CALL
    fence = _FENCE.fullmatch(text.strip())
    return _is_call(_parsed(fence["body"] if fence else text))


def is_wrapped(text: str) -> bool:
    """Return whether a text is program output, or an answer inside JSON, a record, tags, HTML, a fence or a prompt."""
    text = text.strip()
    fence = _FENCE.fullmatch(text)
    body = fence["body"].strip() if fence else text
    is_prose = len(re.findall(r"\w+", body)) >= _PROSE and body[0].isupper() and body[-1] in ".!?" and "```" not in body
    return bool((fence and is_prose) or _WRAPPED.match(body) or _contains_text(body) or _is_output(body))


def _is_output(text: str) -> bool:
    """Return whether a text is a printed object, the raw body of a stream, or a chat completion object."""
    value, lines = _parsed(text), [line for line in text.splitlines() if line.strip()]
    is_completion = isinstance(value, dict) and len(_COMPLETION_KEYS & value.keys()) > 1
    has_data = text.count("data:") > 1 or re.match(r"(?:data:\s*|[\da-f]:)[\"\[{]", text.lstrip())
    is_stream = has_data and all(map(_EVENT.match, lines))
    return is_completion or bool(is_stream) or _PRINTED.fullmatch(text.strip()) is not None


def _is_call(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_call, value))
    if not isinstance(value, dict) or value.get("content"):
        return False
    return bool(_TOOL & value.keys() and _INPUT & value.keys()) or any(_is_call(value.get(key)) for key in _CALLS)


def _parsed(text: str) -> Any:
    """Return the value of a text that is JSON or a Python literal; else None."""
    text = text.strip()
    for parse in (json.loads, ast.literal_eval) if text.startswith(("{", "[", '"', "'", "b'", 'b"')) else ():
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes
            return parse(text)
    return None


def _contains_text(text: str) -> bool:
    """Return whether a text is JSON or a printed value around an answer, rather than data that the user requested."""
    parsed = _parsed(text)
    if parsed is None:  # truncated, JSON lines, a printed dictionary, or prose about JSON
        return _FIELD.match(text) is not None and not re.search(r"[\]}]\s*\w[^{}\[\]]*\Z", text)
    rows = parsed if isinstance(parsed, list) else [parsed]
    if len(rows) == 1 and isinstance(rows[0], str | bytes):
        return len(text.split()) >= _PROSE
    pairs = [pair for row in rows if isinstance(row, dict) for pair in row.items() if isinstance(pair[1], str)]
    return any(key in _ANSWER_KEYS or 2 * len(value) >= len(text) for key, value in pairs)
