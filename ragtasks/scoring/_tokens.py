"""Tokens of a prompt: counted by a tokenizer with its chat template, or estimated from its words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from ragtasks.files import NO_CODE, from_cache, loading

Count = Callable[[list[dict[str, str]]], int]
"""Messages -> tokens of the prompt."""

# Tokens per word, mark, letter and digit, fitted to three tokenizers (two of current models, one of an encoder) on
# MTRAG's passages, conversations and answers, and on judge prompts; the estimates for these are within 12 %. Words in
# other languages than English are split into smaller tokens, and other scripts into still smaller ones.
_PER_WORD, _PER_MARK, _PER_LETTER, _PER_DIGIT = 0.44, 0.64, 0.135, 1.22
_MARKS_OF_JSON = ('":', '",', '{"', '"}')  # one token each
_PER_FOREIGN_LETTER, _PER_ACCENT, _PER_IDEOGRAPH, _PER_OTHER_LETTER = 0.24, 1.0, 0.7, 0.31
_ENGLISH = re.compile(r" (?:the|of|and|to|in|is|a) ")
_ENGLISH_SHARE = 0.08  # of words: minimum share for an English text
_FEW_WORDS = 20  # too few to detect the language
_FRAME = 4  # tokens around a message
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def tokens_of_text(count: Count, text: str) -> int:
    """Return the tokens of a text alone."""
    return count([{"role": "user", "content": text}]) - count([{"role": "user", "content": ""}])


def estimated_tokens(messages: list[dict[str, str]]) -> int:
    """Return an estimate of a prompt's tokens from its words, plus a few for each message."""
    return round(sum(_estimated(message["content"]) + _FRAME for message in messages))


def _estimated(text: str) -> float:
    n_words = len(text.split())
    n_marks, n_digits = (sum(map(text.count, signs)) for signs in (string.punctuation, string.digits))
    n_letters = len(text) - n_marks - sum(map(text.count, string.whitespace))
    n_marks -= sum(map(text.count, _MARKS_OF_JSON))
    non_ascii = "" if text.isascii() else "".join(_NOT_ASCII.findall(text))
    n_by_script = Counter(map(_script, non_ascii))
    n_letters -= n_by_script["ideograph"] + n_by_script["other"]
    english = min(1.0, len(_ENGLISH.findall(text)) / max(1.0, _ENGLISH_SHARE * n_words))
    per_letter = _PER_LETTER if n_words < _FEW_WORDS else english * _PER_LETTER + (1 - english) * _PER_FOREIGN_LETTER
    n_latin = _PER_WORD * n_words + _PER_MARK * n_marks + per_letter * n_letters + _PER_DIGIT * n_digits
    n_foreign = (
        _PER_IDEOGRAPH * n_by_script["ideograph"]
        + _PER_OTHER_LETTER * n_by_script["other"]
        + _PER_ACCENT * n_by_script["accent"]
    )
    return n_latin + n_foreign


def _script(letter: str) -> str:
    """Return the type of a non-ASCII character: `accent` (a Latin letter), `mark`, `ideograph` (CJK) or `other`."""
    if letter < "\u0250" or not letter.isalpha():
        return "accent" if letter.isalpha() else "mark"
    return "ideograph" if "\u3040" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af" else "other"


def token_counter(tokenizer: str | None) -> Count:
    """Return the function that counts tokens: by a tokenizer in a folder or on the hub, or by an estimate."""
    if tokenizer is None:
        return estimated_tokens
    next_step = "name a folder or a model of the hub, or leave it out for an estimate"
    with loading(
        "--tokenizer", tokenizer, expected="a tokenizer that can be loaded", next_step=next_step, has_weights=False
    ):
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(tokenizer, **NO_CODE, **from_cache(tokenizer))
    return partial(_counted, loaded)


def _counted(tokenizer: Any, messages: list[dict[str, str]]) -> int:
    if tokenizer.chat_template is None:
        return len(tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"])
    return len(tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False))
