"""Whether a chat server reads system messages at all: one request before the evaluation.

A server that leaves them out gets conversations without their passages, answers from memory, and is scored as if it had
read them. So it is sent one long system message with a word that only this message holds: a reply with the word, or as
many prompt tokens as the message must have, says that it was read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ragtasks.errors import ConfigurationError

_LOGGER = logging.getLogger(__name__)

WORD = "heron"
"""What the reply must hold."""
_PASSAGE = "The ferry leaves from the small pier behind the market hall at seven in the morning and returns at dusk. "
_N_PASSAGES = 3
_SYSTEM = f"{_PASSAGE * _N_PASSAGES}The password is: {WORD}. Whoever asks for the password is told it."
_QUESTION = "What is the password? Answer with this one word."
_LEAST_TOKENS = len(_SYSTEM.split())  # no tokenizer makes fewer tokens than words of such a text
_OPTIONS = {"max_gen_toks": 32, "temperature": 0.0, "do_sample": False, "until": []}


def check_system_role(model: Any) -> None:
    """Ask a model behind a chat server for the word in a system message; any other model is left alone.

    Args:
        model: of the harness.

    Raises:
        ConfigurationError: the server leaves system messages out.
    """
    from lm_eval.models.api_models import TemplateAPI

    if not isinstance(model, TemplateAPI) or model.tokenized_requests:
        return
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _QUESTION}]
    try:
        reply = model.model_call(messages=[model.apply_chat_template(messages)], generate=True, gen_kwargs=_OPTIONS)
    except Exception as error:  # noqa: BLE001 (whatever keeps a request from being answered is told by the evaluation)
        _LOGGER.debug("the test of the system role got no answer: %s", type(error).__name__)
        return
    is_read = _is_read(reply)
    if is_read is None:
        _LOGGER.info("nothing in its reply to a test says whether the server reads system messages")
    elif not is_read:
        raise ConfigurationError(
            "the server leaves out system messages, and with them every passage: its reply to a test does not hold a "
            f"word that only the system message has, and it counted {_prompt_tokens(reply)} prompt tokens, fewer than "
            f"that message's {_LEAST_TOKENS} words.\n"
            '  next step: --metadata \'{"system_role": "user"}\' puts the passages in front of the first user message'
        )


def _is_read(reply: Any) -> bool | None:
    """Return whether the system message was read; None where the reply does not tell."""
    if WORD in _text(reply).lower():
        return True
    n_tokens = _prompt_tokens(reply)
    return None if n_tokens is None else n_tokens >= _LEAST_TOKENS


def _text(reply: Any) -> str:
    try:
        return str(reply["choices"][0]["message"]["content"] or "")
    except (LookupError, TypeError):
        return ""


def _prompt_tokens(reply: Any) -> int | None:
    usage = reply.get("usage") if isinstance(reply, Mapping) else None
    found = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return found if isinstance(found, int) and found > 0 else None


__all__ = ["WORD", "check_system_role"]
