"""Baselines as harness models. They answer from the doc of a request instead of the prompt, at no cost.

They are reference points for every result: the ceiling (`ragtasks-oracle`), the floor (`ragtasks-refuse`), the effect
of a leak in the data (`ragtasks-refuse-on-empty`), and a system without a model (`ragtasks-extractive`).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import lm_eval.models  # noqa: F401 (first, because the harness registers its own models only while none is registered)
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from ragtasks.benchmarks import Doc, passage_rows, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.harness.agentic import AgenticTask, Search
from ragtasks.harness.prompts import REFUSAL
from ragtasks.languages import ENGLISH, settled, words_of
from ragtasks.records import LANGUAGE

_REFUSAL_SENTENCE = f"{REFUSAL}."


class AnswersOnly(LM):
    """A harness model that answers from the doc and has no likelihoods."""

    label: str
    """Name of the model for errors."""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Return the messages as text, which identifies the request."""
        return "\n".join(f"{message['role']}: {message['content']}" for message in chat_history)

    def loglikelihood(self, requests: list[Instance]) -> Any:
        """Raise ConfigurationError, because the model has no likelihoods."""
        raise ConfigurationError(f"{self.label} answers questions; it gives no likelihoods")

    loglikelihood_rolling = loglikelihood


class _Baseline(AnswersOnly):
    """A harness model whose answer is a function of the doc."""

    label = "this baseline"
    is_baseline = True
    """Excludes the answers from the plausibility check."""
    tokenizer_name = "ragtasks-baseline"

    def __init__(self, **_: Any) -> None:
        super().__init__()

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [self._answer(request.doc) for request in requests]

    def _answer(self, doc: Doc) -> str:
        raise NotImplementedError


@register_model("ragtasks-extractive")
class Extractive(_Baseline):
    """Gives the best sentences of the passages for the question, or the refusal phrase if none matches."""

    def _answer(self, doc: Doc) -> str:
        # The text of a passage begins with its title, which is not a sentence.
        texts = [passage["text"].removeprefix(passage["title"]) for passage in doc["passages"]]
        language = json.loads(doc.get("extra") or "{}").get(LANGUAGE, ENGLISH)
        return extract_answer(doc["question"], texts, language) or _REFUSAL_SENTENCE


@register_model("ragtasks-oracle")
class Oracle(_Baseline):
    """Gives the reference answer: the ceiling of every reference-based metric."""

    def _answer(self, doc: Doc) -> str:
        return str(doc["target"])


@register_model("ragtasks-refuse")
class Refuse(_Baseline):
    """Gives the refusal phrase: the floor, and the score of a system that refuses every question."""

    def _answer(self, doc: Doc) -> str:
        return _REFUSAL_SENTENCE


@register_model("ragtasks-refuse-on-empty")
class RefuseOnEmpty(Oracle):
    """Gives the reference answer if the doc has passages, else the refusal phrase.

    Its answerability accuracy shows how well missing passages alone identify unanswerable tasks.
    """

    def _answer(self, doc: Doc) -> str:
        return super()._answer(doc) if doc["passages"] else _REFUSAL_SENTENCE


# Agents without a model, for agentic tasks: the value of one search, of the official rewrite, and the ceiling.


class _Agent(Extractive):
    """A harness model that decides from the search state instead of the prompt."""

    _k = 5

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [self._next(request) for request in requests]

    def _next(self, request: Instance) -> str:
        task = getattr(request, "conversations", None)
        if not isinstance(task, AgenticTask):
            return self._answer(request.doc)  # with the passages of the doc
        search = task.search_of(request.doc["task_id"])
        query = self._query(task, search)
        if query is not None and search.session.calls_left:
            words = " ".join(query.replace("<", " ").split())
            return f'<search k="{self._k}">{words[: task.toolbox.limits.query_characters]}</search>'
        return f"<answer>{self._answer({**search.doc, 'passages': passage_rows(search.session.passages)})}</answer>"

    def _query(self, task: AgenticTask, search: Search) -> str | None:
        """Return the next query, or None to answer."""
        raise NotImplementedError


@register_model("ragtasks-agent-once")
class AgentOnce(_Agent):
    """Searches for the last turn and answers with the best sentences."""

    def _query(self, task: AgenticTask, search: Search) -> str | None:
        return None if search.exchanges else str(search.doc["question"])


@register_model("ragtasks-agent-rewrite")
class AgentRewrite(_Agent):
    """Searches for the official rewrite, or the question without one, and answers with the best sentences."""

    def _query(self, task: AgenticTask, search: Search) -> str | None:
        return None if search.exchanges else _rewrite(task, search.doc)


@register_model("ragtasks-agent-oracle")
class AgentOracle(_Agent):
    """Searches for the official rewrite, then with the texts of the relevant passages until all are retrieved.

    It is the ceiling: it gives the reference answer, and does not search if no passage is relevant.
    """

    _k = 20

    def _query(self, task: AgenticTask, search: Search) -> str | None:
        retrieved = {passage.passage_id for passage in search.session.passages}
        tried = len(search.exchanges) - 1
        missing = [name for name in task.relevant(search.doc["task_id"]) if name not in retrieved]
        if not missing:
            return None
        if tried < 0:
            return _rewrite(task, search.doc)
        passage = task.toolbox.passage(search.doc["domain"], missing[tried % len(missing)])
        return passage.text if passage is not None else None

    def _answer(self, doc: Doc) -> str:
        return str(doc["target"])


def _rewrite(task: AgenticTask, doc: Doc) -> str:
    """Return the official rewrite of a question, or the question itself."""
    load = retrieval_side(task.benchmark.name).load_rewrites
    rewrites = load(task.benchmark.root, doc["domain"]) if load is not None else {}
    return str(rewrites.get(doc["task_id"], doc["question"]))


# The extractive baseline: the sentences with the most words of the question. It uses no model, so it needs no download
# and is deterministic. A system that scores lower does not use its passages.

_WORD = re.compile(r"[a-z0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FOREIGN_SENTENCE_END = re.compile(r"(?<=[.!?\u0964\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a about all also am an and any are as at be because been but by can could did do does for from get had has"
        " have he her his how i if in into is it its just like me more my no not now of ok on one only or our out"
        " please she should so some tell than that the their them then there these they this to too up us was we well"
        " were what when where which who why will with would you your"
    )
)
N_SENTENCES = 3
MIN_SHARE = 0.1
"""Minimum share of the question's weight for the best sentence. Below it, the baseline refuses."""


def extract_answer(question: str, passages: Sequence[str], language: str = ENGLISH) -> str | None:
    """Return the best sentences in passage order, or None if no sentence matches the question.

    A sentence's score is the summed inverse sentence frequency of the question's content words in it, divided by the
    sum over the question. Ties go to the earlier sentence.
    """
    language = settled(language, question)
    ends = _SENTENCE_END if language == ENGLISH else _FOREIGN_SENTENCE_END
    sentences = [part.strip() for text in passages for part in ends.split(text) if _words(part, language)]
    words_by_sentence = [_words(sentence, language) for sentence in sentences]
    # Word of the question -> inverse sentence frequency.
    counts = Counter(word for words in words_by_sentence for word in words)
    weights = {
        word: math.log(1 + len(words_by_sentence) / (1 + counts[word])) for word in sorted(_words(question, language))
    }
    total = math.fsum(weights.values())
    if not sentences or not total:
        return None
    # `fsum` is exact: the order of words in a set differs between processes, and ties must remain ties.
    scores = [math.fsum(weights.get(word, 0.0) for word in words) / total for words in words_by_sentence]
    best = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))[:N_SENTENCES]
    if scores[best[0]] < MIN_SHARE:
        return None
    return " ".join(sentences[index] for index in sorted(best) if scores[index] > 0)


def _words(text: str, language: str) -> frozenset[str]:
    if language != ENGLISH:
        return frozenset(words_of(text, language))
    return frozenset(_WORD.findall(text.lower())) - _FUNCTION_WORDS
