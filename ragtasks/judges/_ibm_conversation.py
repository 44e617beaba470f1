"""The conversation as the official judges see it: one text, and what the scripts cut it into.

Source: IBM/mt-rag-benchmark, scripts/evaluation/judge_utils.py, commit cc5b1d4.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.records import Message, Role

_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}
_USER = "user:"
_USER_BLANK = "user: "


def ibm_conversation(messages: Sequence[Message]) -> str:
    """Return `speaker: text` lines, the question included; a message with line ends takes several."""
    return "\n".join(f"{_SPEAKERS[message.role]}: {message.text}" for message in messages)


def ibm_split_conversation(conversation: str) -> tuple[str, str]:
    """Return (previous conversation, question) of an `ibm_conversation`, as the official scripts take it apart.

    The question is the last line that begins with `user:`, from its first `user: ` to the next one, blanks at both ends
    removed. The rest is all lines but the last, and nothing where only one line begins so. Known differences from the
    messages: of a question with several lines the first is the question and all but the last go to the rest; such a
    line in an answer passes for a question; other line separators become line ends. Where the scripts end with an error
    (a line `user:` with no blank behind), the question is what follows the colon.
    """
    lines = conversation.splitlines()
    asked = [line for line in lines if line.startswith(_USER)]
    parts = asked[-1].split(_USER_BLANK)
    question = (parts[1] if len(parts) > 1 else asked[-1].removeprefix(_USER)).strip()
    return ("" if len(asked) == 1 else "\n".join(lines[:-1])), question


__all__ = ["ibm_conversation", "ibm_split_conversation"]
