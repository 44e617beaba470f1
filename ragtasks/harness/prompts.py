"""The prompts of one harness task: templates, filled with a doc, as messages or as plain text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import TemplateError

from ragtasks.benchmarks import Doc
from ragtasks.clients import listed_models
from ragtasks.config import OFFICIAL_PROMPT, EvaluationConfig
from ragtasks.errors import ConfigurationError, ModelError
from ragtasks.files import CLOSED_BOOK
from ragtasks.languages import UNKNOWN
from ragtasks.prompts import OfficialPrompt, PromptTemplate, load_template, official_prompt, shipped_template
from ragtasks.records import LANGUAGE, Setting

YAML_KEYS = ("prompt", "closed_book_prompt", "plain_prompt")
"""Keys of templates in a YAML, which the harness does not use."""
_MAX_WORDS = 150  # limit of the MTRAG prompts
_SYSTEM, _CLOSED_BOOK, _PLAIN = "generation/system", "generation/closed_book", "generation/plain"
_ANSWER_LANGUAGE = "generation/answer_language"
_AGENTIC_TASKS, _REWRITING_TASKS = "agentic tasks", "rewriting tasks"


class TaskPrompts:
    """The templates of a harness task, for the system text and for plain prompts, and its limit on words."""

    def __init__(self, evaluation: EvaluationConfig, yaml: Mapping[str, Any], root: Path = Path()) -> None:
        """Load the templates of the configuration (`--metadata`), else of the YAML, else the defaults.

        Official prompts are read from the benchmark's files under `root`.
        """
        options = dict(yaml.get("dataset_kwargs") or {})
        _reject_misplaced(yaml, options)
        self._official: OfficialPrompt | None = None
        """The official prompt, if it is the last user message. Otherwise, it replaces the system message."""
        if evaluation.system_prompt == OFFICIAL_PROMPT:
            official = official_prompt(_prompted(options), root)
            self.system, self._official = official.template, official if official.has_question else None
        else:
            closed_book = yaml.get("closed_book_prompt", yaml.get("prompt", _CLOSED_BOOK))
            system = closed_book if evaluation.run == CLOSED_BOOK else yaml.get("prompt", _SYSTEM)
            self.system = _load_template(evaluation.system_prompt, system, yaml)
        self.plain = _load_template(evaluation.plain_prompt, yaml.get("plain_prompt", _PLAIN), yaml)
        self.max_words = evaluation.max_words or options.get("max_words", _MAX_WORDS)
        self.fields: dict[str, Any] = {}
        """Fields of the system text in addition to a doc's own."""
        self._folds = evaluation.system_role == "user"
        self.forget_model()

    def forget_model(self) -> None:
        """Reset the state of the chat template, because the model may change."""
        self.renderer = ChatRenderer(folds=self._folds)

    def messages(self, doc: Doc, instruction: str | None) -> ChatMessages:
        """Return the messages for a chat model."""
        return chat_messages(self._with_official_question(doc), self.system_text(doc, instruction))

    def text(self, doc: Doc, instruction: str | None) -> str:
        """Return the prompt for a model without a chat template."""
        system, question = self.system_text(doc, instruction), self._with_official_question(doc)["question"]
        text = self.plain.render(system=system, history=doc["history"], question=question).rstrip("\n")
        return text if system else text.lstrip("\n")

    def _with_official_question(self, doc: Doc) -> Doc:
        """Return a doc whose question is the official prompt, if that contains the passages and the question."""
        if self._official is None:
            return doc
        return {**doc, "question": self.system.render(passages=doc["passages"], question=doc["question"])}

    def system_text(self, doc: Doc, instruction: str | None) -> str:
        """Return the system message: the user's instruction, if any, then the template with numbered passages.

        If the conversation is not in English, a rule on the language of the answer follows. If the last user message
        contains the passages, the text may be empty.
        """
        if self._official is not None:
            return f"{instruction or ''}\n\n{self._official.system}".strip()
        extra = json.loads(doc.get("extra") or "{}")
        texts = {"passages": doc["passages"], "max_words": self.max_words, "refusal": REFUSAL, "extra": extra}
        text = self.system.render(**texts, **self.fields).strip()
        if extra.get(LANGUAGE, UNKNOWN) != UNKNOWN:
            text = f"{text}\n\n{shipped_template(_ANSWER_LANGUAGE).render().strip()}"
        return f"{instruction}\n\n{text}" if instruction else text

    def fingerprint_parts(self) -> dict[str, Any]:
        """Return everything that affects prompts, except their docs."""
        return {
            "system_prompt": self.system.sha256,
            "plain_prompt": self.plain.sha256,
            "max_words": self.max_words,
            **self.fields,
        }

    def provenance(self) -> dict[str, str]:
        """Return the template names and hashes for the results."""
        return {"system": _label(self.system), "plain": _label(self.plain)}


def _prompted(options: Mapping[str, Any]) -> str:
    """Return whose official prompt a task has: the benchmark's, unless the task does not request its answers."""
    if "contract" in options:
        return _REWRITING_TASKS
    return _AGENTIC_TASKS if options["setting"] == Setting.AGENTIC.value else str(options["benchmark"])


def _reject_misplaced(yaml: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Reject template names in `dataset_kwargs`, where they would be ignored."""
    misplaced = [key for key in YAML_KEYS if key in options]
    if misplaced:
        raise ConfigurationError(
            "prompt template",
            where=f"{_source(yaml)}, dataset_kwargs",
            expected=f"{', '.join(misplaced)} next to dataset_kwargs, with the task's other keys",
            found=f"{', '.join(misplaced)} in dataset_kwargs",
            next_step="move these lines out of dataset_kwargs",
        )


def _load_template(path: str | None, name: Any, yaml: Mapping[str, Any]) -> PromptTemplate:
    """Return the template at the user's `path`, else the template named in a YAML. Several templates are joined."""
    if path is None and isinstance(name, list) and name:
        parts = [_load_template(None, part_name, yaml) for part_name in name]
        joined = " + ".join(part.name for part in parts), "\n".join(part.source for part in parts)
        return PromptTemplate(*joined, is_own=any(part.is_own for part in parts))
    if path is None and isinstance(name, str) and Path(name).suffix:
        path = str(Path(_source(yaml)).parent / Path(name).expanduser())
    try:
        return load_template(path, name)
    except (OSError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            "prompt template",
            where=_source(yaml),
            expected=f"the name of a shipped template, such as {_SYSTEM}, or a file with a suffix, such as mine.jinja",
            found=repr(name),
            next_step="use one of these; file paths are relative to the YAML",
        ) from error


def _source(yaml: Mapping[str, Any]) -> str:
    """Return the path of a task's file, as the harness records it."""
    return str((yaml.get("metadata") or {}).get("config_source", "inline"))


def _label(template: PromptTemplate) -> str:
    return f"{template.name} ({template.sha256[:16]})"


# A conversation as chat messages, or as plain text for a model without a chat template. Two traps of the harness are
# avoided. First, its Hugging Face model drops the system message, and with it the passages, if a chat template rejects
# that role. Here, the system text is then put in front of the first user message. Second, a chat endpoint without
# `--apply_chat_template` fails late with an unclear error, so it is rejected immediately.

_LOGGER = logging.getLogger(__name__)

REFUSAL = "I do not have specific information"
"""The fixed phrase that the benchmark requires if the passages contain no answer (paper, appendix D.2)."""

ChatMessages = list[dict[str, str]]


def chat_messages(doc: Doc, system: str) -> ChatMessages:
    """Return the messages in the order of the conversation: system, if any, then every turn, the question last."""
    turns = [{"role": message["role"], "content": message["content"]} for message in doc["history"]]
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *turns, {"role": "user", "content": doc["question"]}]


def fold_system(messages: ChatMessages) -> ChatMessages:
    """Return the conversation with the system text in front of the first user message."""
    if messages[0]["role"] != "system":
        return messages
    system, first, *later = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *later]


class ChatRenderer:
    """Renders conversations with a model's chat template, and remembers whether the template has a system role.

    The harness's models log a warning for each system message that a template rejects. One warning is enough here,
    because no passage is lost.
    """

    def __init__(self, *, folds: bool = False) -> None:
        self._folds = folds

    def render(self, messages: ChatMessages, chat_template: Callable[[ChatMessages], Any]) -> Any:
        """Return the messages in the model's chat template, with the complete system text.

        Raises:
            ConfigurationError: if the template rejects the messages or drops the system text.
        """
        system = messages[0]["content"]
        if not self._folds:
            rendered = _apply_template(chat_template, messages)
            if _contains(rendered, system):
                return rendered
        rendered = _apply_template(chat_template, fold_system(messages))
        if not _contains(rendered, system):
            raise ConfigurationError(
                "the model's chat template leaves out the passages; try without --apply_chat_template"
            )
        if not self._folds:
            self._folds = True
            _LOGGER.warning(
                "No passage is lost: without a system role, the passages go in front of the first user message."
            )
        return rendered


def _apply_template(chat_template: Callable[[ChatMessages], Any], messages: ChatMessages) -> Any:
    """Return the rendered messages. A missing template or a template error is reported on one line."""
    try:
        return chat_template(messages)
    except (ValueError, TemplateError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise ConfigurationError(
        f"--apply_chat_template: the model has no chat template that accepts the conversation ({reason}).\n"
        "  next step: leave the flag out (plain text), or name a tokenizer with one in --model_args (tokenizer=...)"
    )


def _contains(rendered: Any, text: str) -> bool:
    """Return whether a rendered prompt (text, the harness's JSON wrapper, or messages) contains `text`."""
    if isinstance(rendered, str):
        return text.strip() in rendered
    prompt = getattr(rendered, "prompt", None)
    messages = json.loads(prompt) if isinstance(prompt, str) else rendered
    return any(text.strip() in str(message.get("content", "")) for message in messages)


def reject_chat_endpoint(metadata: Mapping[str, Any]) -> None:
    """Reject a chat endpoint that would receive plain text."""
    # Only the path is checked, because hosted services append a version (`...?api-version=`).
    if urlsplit(str(metadata.get("base_url", ""))).path.rstrip("/").endswith("/chat/completions"):
        raise ConfigurationError(
            "the model's base_url is a chat endpoint, but the harness would send plain text.\n"
            "  next step: add --apply_chat_template"
        )


# Prompt lengths are counted before the model runs, because the harness's models silently cut a prompt on the left,
# where the passages are. Servers reject a prompt that is too long.

REFUSE, DROP = "refuse", "drop_passages"
_CHARACTERS_PER_TOKEN = 3.5  # for English text; an estimate without a tokenizer
_TOKENS_PER_MESSAGE = 8  # tokens of a chat template per message
_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length")
_SECONDS = 10.0


def context_of_server(address: str, name: Any, headers: Mapping[str, str]) -> int | None:
    """Return the context length of a model as its OpenAI-compatible server reports it, or None."""
    above = address.partition("/chat/completions")[0].removesuffix("/completions")
    try:
        listed = [row for row in listed_models(above, headers, _SECONDS) if isinstance(row, Mapping)]
    except ModelError:
        return None
    # If no model has the name, the only listed model is used.
    matching = [row for row in listed if row.get("id") == name] or (listed if len(listed) == 1 else [])
    lengths = [row[key] for row in matching for key in _CONTEXT_KEYS if isinstance(row.get(key), int)]
    return lengths[0] if lengths and lengths[0] > 0 else None


def _texts_of(prompt: Any) -> list[str]:
    """Return a prompt's text, or the texts of its messages."""
    chat = getattr(prompt, "prompt", prompt)
    if chat is prompt:
        return [str(prompt)]
    messages = json.loads(chat)
    return [
        f"{message['content']}{json.dumps(message['tool_calls']) if 'tool_calls' in message else ''}"
        for message in messages
    ]


def _estimated_tokens(prompt: Any) -> int:
    texts = _texts_of(prompt)
    return round(sum(map(len, texts)) / _CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE * len(texts)


@dataclass(slots=True)
class PromptBudget:
    """Fits the prompts of one harness task to the model's context, and counts those that did not fit."""

    n_context: int | None = None
    """Maximum number of tokens of prompt and answer together; None if unknown, and then nothing is cut."""
    policy: str = REFUSE
    """`refuse`, or `drop_passages`, which drops the lowest-ranked passages first."""
    n_reply: int = 0
    """Maximum number of tokens of the answer."""
    tokens_of: Callable[[Any], int] = _estimated_tokens
    """Counts the tokens of a prompt."""
    kept: dict[str, int] = field(default_factory=dict)
    """Task id -> number of remaining passages, for prompts that did not fit; -1 if the prompt still does not fit."""
    n_dropped: int = 0
    """Number of dropped passages over all prompts."""
    n_prompts: int = 0
    """Number of prompts that did not fit."""
    longest: int = 0
    """Number of tokens of the longest prompt before passages were dropped."""

    @classmethod
    def of(cls, model: Any, n_context: int | None, policy: str, n_reply: int) -> PromptBudget:
        """Return the budget of a model. `n_context` defaults to the context length of the model or of its server."""
        if n_context is None and getattr(model, "model_call", None) and not getattr(model, "tokenized_requests", False):
            # The harness does not know the context length of a model behind a server; its value is a default.
            n_context = context_of_server(str(model.base_url), getattr(model, "model", None), model.header)
        elif n_context is None:
            model_length = getattr(model, "max_length", None)
            n_context = model_length if isinstance(model_length, int) else None
        if not n_context:
            return cls(None, policy, n_reply)
        # Some models load their tokenizer when the attribute is accessed.
        has_tokenizer = getattr(model, "tokenizer", None) is not None and hasattr(model, "tok_encode")

        def n_tokens(prompt: Any) -> int:
            return len(model.tok_encode("\n".join(_texts_of(prompt))))

        return cls(n_context, policy, n_reply, n_tokens if has_tokenizer else _estimated_tokens)

    @property
    def counted_by(self) -> str:
        """`tokenizer` or `estimate`."""
        return "estimate" if self.tokens_of is _estimated_tokens else "tokenizer"

    def prompt(self, doc: Doc, render: Callable[[Doc], Any]) -> Any:
        """Return a doc's prompt, with as many of its passages as fit."""
        complete = render(doc)
        if self.n_context is None:
            return complete
        n_tokens = self.tokens_of(complete)
        self.longest = max(self.longest, n_tokens)
        if n_tokens + self.n_reply <= self.n_context:
            return complete
        passages = list(doc["passages"])
        n_kept, prompt = len(passages), complete
        while self.policy == DROP and n_kept and not self.has_room(prompt):
            n_kept -= 1
            prompt = render({**doc, "passages": passages[:n_kept]})
        if doc["task_id"] not in self.kept:
            self.n_prompts += 1
            self.n_dropped += len(passages) - n_kept
        self.kept[doc["task_id"]] = n_kept if self.has_room(prompt) else -1
        return prompt

    def has_room(self, prompt: Any) -> bool:
        """Return whether a prompt fits; True if the context length is unknown."""
        return self.n_context is None or self.tokens_of(prompt) + self.n_reply <= self.n_context

    def check(self, task: str, n_docs: int) -> None:
        """Reject prompts that do not fit, before the model runs.

        Raises:
            ConfigurationError: if any prompt exceeds the context.
        """
        n_left = sum(kept < 0 for kept in self.kept.values())
        if self.n_context is None or not n_left:
            return
        about = "about " if self.counted_by == "estimate" else ""
        raise ConfigurationError(
            f"prompts of {task}",
            where=f"{n_left} of {n_docs}, the longest of {about}{self.longest} tokens",
            expected=f"at most {self.n_context - self.n_reply} tokens: a context of {self.n_context} minus "
            f"{self.n_reply} for the answer",
            found="longer prompts, which would be truncated",
            next_step='a model or server with a larger context; "too_long": "drop_passages" in --metadata or `options` '
            "leaves out the lowest-ranked passages; shorter answers: max_gen_toks=256 in --gen_kwargs or `generation`",
        )

    def fingerprint_parts(self) -> list[Any]:
        """Return the settings that affect prompts; empty if no prompt is cut."""
        return [self.policy, self.n_context, self.n_reply] if self.n_context and self.policy == DROP else []

    def counts(self) -> dict[str, Any]:
        """Return the counts for the results; empty if the context length is unknown."""
        if self.n_context is None:
            return {}
        return {
            "context_tokens": self.n_context,
            "counted_by": self.counted_by,
            "longest": self.longest,
            "prompts": self.n_prompts,
            "passages_dropped": self.n_dropped,
        }
