"""Thinking models: what they think aloud is no part of the answer."""

from __future__ import annotations

_OPENINGS = ("<think>", "<thinking>")


def answer_text(text: str, end_of_thinking: str) -> str:
    """Return what a model answered, without the thinking text before it.

    The answer begins after the last end marker. A reply that opens a thought and never ends it (cut off by the token
    limit) holds no answer: it gives "", which is counted as an empty response.

    Args:
        text: the model's reply.
        end_of_thinking: the marker that ends a thought, such as `</think>`.
    """
    answer = text.rpartition(end_of_thinking)[2].strip()
    return "" if answer.startswith(_OPENINGS) else answer


__all__ = ["answer_text"]
