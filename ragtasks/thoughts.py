"""Splits a reply into the model's thought and its answer.

The marks are those of the reasoning parsers of vLLM and SGLang, of Open WebUI exports, `ollama run` and ReAct prompts.
A mark that the text only mentions ("write it between <think> and </think>") is ignored.
"""

from __future__ import annotations

import re

END_OF_THOUGHT = "</think>"
"""The usual end mark. The opening mark is often part of the prompt, so a reply may contain only the end."""

_NAMES = (
    r"(?:\w+[:_])?think(?:ing)?|antthinking|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis|\w+_monologue|cot"
)
_MARKS = [(rf"<{name}\s*>", rf"</{name}\s*>") for name in _NAMES.split("|")] + [
    (r"(?-i:\[THINK\])", r"\[/THINK\]"),
    (r"<\|(?:think(?:ing)?|reasoning)\|>", r"<\|/(?:think(?:ing)?|reasoning)\|>"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|(?:START_THINKING|begin_of_thought|think:start)\|>", r"<\|(?:END_THINKING|end_of_thought|think:end)\|>"),
    (r"<\|inner_prefix\|>|<\|channel>thought|\[unused16\]", r"<\|inner_suffix\|>|<channel\|>|\[unused17\]"),
]
_WORDED = [  # only at the beginning of a reply; without the end mark, the text is an answer
    (r"Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),
    (r"Thinking\.\.\.\n", r"\.\.\.done thinking\."),
    (r"(?:Question:.*\n+)?(?:Thought|Action)(?: \d+)?:", r"\n[ *#]*Final Answer:\**"),
    (r"<details(?: type=\"reasoning\"[^<>]*>|[^<>]*>\s*<summary>[^<>]{0,20}(?:think|thought|reason))", r"</details>"),
    (r"\[(?:thinking|reasoning|thoughts?)\]", r"\[/(?:thinking|reasoning|thoughts?)\]"),
    (r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>", r"<\|end\|>"),
]
_FORMS = [(re.compile(a, re.I), re.compile(b, re.I), (a, b) in _WORDED) for a, b in (*_MARKS, *_WORDED)]
_ANSWER_MARKS = re.compile(
    r"\s*(?:<(?P<tag>answer|response|output|final_answer|solution)>|<\|(?:START_(?:RESPONSE|TEXT)|begin_of_solution)\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>)"
    r"(?P<answer>.*?)(?:</(?P=tag)>|<\|(?:END_(?:RESPONSE|TEXT)|end_of_solution|end|return)\|>)?\s*",
    re.DOTALL | re.I,
)
MENTION = (
    r"[ \t]+(?:and|or|is|are|tags?|tokens?|marks?|blocks?|elements?|opens?|closes?|starts?|begins?|ends?|holds?"
    r"|contains?|means?|tells?|groups?|creates?|wraps?|separates?|defines?|should|must|can)\b"
)
"""Pattern of the words after a mark that the text only mentions."""
_MENTIONED = re.compile(rf"{MENTION}|[.,;:)]")
_MOST_MARKS = 20  # number of end marks that are examined, from the end of a text
_QUOTATIONS = ("``", '""', "''", "“”", "()", "[]", "**")


def split_thought(text: str, end: str = END_OF_THOUGHT) -> tuple[str, str]:
    """Return (thought, answer). Without a thought, the answer is the unchanged text.

    A thought without an end leaves an empty answer.

    Args:
        text: the model's reply.
        end: a mark other than `</think>` is matched literally; the answer begins after its last occurrence.
    """
    thought, mark, answer = text.rpartition(end)
    if mark and end != END_OF_THOUGHT:
        return thought.strip(), answer.strip()
    stop, begin, first, last = max(_last_thought(text, *form) for form in _FORMS)
    remainder = text[stop:] if text[stop:].strip() or not begin else text[:begin]
    later_thought, answer = split_thought(remainder) if stop else ("", text)
    inner = _ANSWER_MARKS.fullmatch(answer)
    answer = inner["answer"].strip() if inner and (stop or not inner["tag"]) else answer
    return "\n".join(filter(None, (text[first:last].strip(), later_thought))), answer.strip() if stop else answer


def _last_thought(text: str, opening: re.Pattern[str], closing: re.Pattern[str], is_worded: bool) -> tuple[int, ...]:
    """Return four positions of the last thought in a text, or zeros without a thought.

    They are the end of the block, the start of the block, the start of the thought, and the end of the thought.
    """
    opened = opening.match(text, len(text) - len(text.lstrip()))
    if (opened and re.match(MENTION, text[opened.end() :])) or (is_worded and not opened):
        return 0, 0, 0, 0
    ends = list(closing.finditer(text, opened.end() if opened else 0))
    if opened and not ends and not is_worded:
        return len(text), opened.start(), opened.end(), len(text)
    clear = [mark for mark in ends if not _is_mentioned(text, mark)] or (ends[:1] if opened else [])
    for mark in reversed(clear[:1] + clear[1:][-_MOST_MARKS:]):
        before = text[: mark.start()]
        inner = max(opening.finditer(before), key=lambda match: match.start(), default=None)
        is_block = inner and _divides(text, inner) and not before[: inner.start()].rstrip().endswith(":")
        starts_in_prompt = not inner or (not _divides(text, inner) and "\n" in before[inner.end() :].strip(" "))
        if (opened and mark is clear[0]) or (not is_worded and _divides(text, mark) and (is_block or starts_in_prompt)):
            block = inner if is_block else opened
            return (mark.end(), block.start(), block.end(), mark.start()) if block else (mark.end(), 0, 0, mark.start())
    return 0, 0, 0, 0


def _is_mentioned(text: str, mark: re.Match[str]) -> bool:
    around = text[: mark.start()][-1:] + text[mark.end() :][:1]
    return around in _QUOTATIONS or _MENTIONED.match(text, mark.end()) is not None


def _divides(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark follows a line or sentence, is not mentioned in the text, and is not in a code block."""
    before = text[: mark.start()]
    line = before.rpartition("\n")[2]
    follows = not line.strip() or not line[-1].isspace() or line.rstrip()[-1] in ".!?\u3002"
    return follows and not _is_mentioned(text, mark) and before.count("```") % 2 == 0
