"""Baselines as harness models: they read the doc behind a request, never the prompt, and cost nothing.

They are the rows that every result wants beside it: the ceiling (`ragtasks-oracle`), the floor (`ragtasks-refuse`),
what a leak in the data is worth (`ragtasks-refuse-on-empty`), and an honest system without a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The harness makes its own models known only while no other is: ours must not be the first.
import lm_eval.models  # noqa: F401
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from ragtasks.benchmarks import Doc
from ragtasks.errors import ConfigurationError
from ragtasks.harness._extractive import extract_answer
from ragtasks.harness.conversation_task import REFUSAL

_REFUSAL_SENTENCE = f"{REFUSAL}."


def extractive(doc: Doc) -> str:
    """Return the best sentences of the passages for the question, or the refusal phrase where nothing fits."""
    # A passage's text starts with its title, which is no sentence.
    texts = [passage["text"].removeprefix(passage["title"]) for passage in doc["passages"]]
    return extract_answer(doc["question"], texts) or _REFUSAL_SENTENCE


def oracle(doc: Doc) -> str:
    """Return the reference answer: the ceiling of every metric that compares with it."""
    return str(doc["target"])


def refuse(doc: Doc) -> str:
    """Return the refusal phrase: the floor, and what a subset with many unanswerable questions rewards."""
    return _REFUSAL_SENTENCE


def refuse_on_empty(doc: Doc) -> str:
    """Return the reference answer where a passage is given, else the refusal phrase.

    Its answerability accuracy is what "no passage" alone tells of unanswerable tasks.
    """
    return oracle(doc) if doc["passages"] else _REFUSAL_SENTENCE


class _Baseline(LM):
    """A harness model whose answer is a function of the doc."""

    answer: Callable[[Doc], str]
    is_baseline = True
    """What it says is by declaration: nobody asks whether it is plausible."""
    tokenizer_name = "ragtasks-baseline"

    def __init__(self, **_: Any) -> None:
        super().__init__()

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [type(self).answer(request.doc) for request in requests]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "\n".join(f"{message['role']}: {message['content']}" for message in chat_history)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise ConfigurationError("this baseline answers questions; it gives no likelihoods")

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise ConfigurationError("this baseline answers questions; it gives no likelihoods")


@register_model("ragtasks-extractive")
class Extractive(_Baseline):
    """See `extractive`."""

    answer = staticmethod(extractive)


@register_model("ragtasks-oracle")
class Oracle(_Baseline):
    """See `oracle`."""

    answer = staticmethod(oracle)


@register_model("ragtasks-refuse")
class Refuse(_Baseline):
    """See `refuse`."""

    answer = staticmethod(refuse)


@register_model("ragtasks-refuse-on-empty")
class RefuseOnEmpty(_Baseline):
    """See `refuse_on_empty`."""

    answer = staticmethod(refuse_on_empty)


__all__ = ["Extractive", "Oracle", "Refuse", "RefuseOnEmpty", "extractive", "oracle", "refuse", "refuse_on_empty"]
