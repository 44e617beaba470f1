"""The prompts of one harness task: its templates, filled with a doc, as messages or as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Doc
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.files import CLOSED_BOOK
from ragtasks.harness.conversation_task._chat import ChatMessages, ChatRenderer, chat_messages, system_text
from ragtasks.templates import PromptTemplate, load_template

YAML_KEYS = ("prompt", "closed_book_prompt", "plain_prompt")
"""What a YAML calls its templates; the harness knows no such keys."""
_MAX_WORDS = 150  # what the MTRAG prompts ask for
_SYSTEM, _CLOSED_BOOK, _PLAIN = "generation/system", "generation/closed_book", "generation/plain"


class TaskPrompts:
    """Two templates and a limit: the system text, and all of a prompt without a chat template."""

    def __init__(self, evaluation: EvaluationConfig, yaml: Mapping[str, Any]) -> None:
        """Load the templates: those of the configuration (`--metadata`), else of the YAML, else the usual ones.

        Args:
            evaluation: names templates and limits that go before those of the task.
            yaml: content of the task's file, with `YAML_KEYS` and, in `dataset_kwargs`, `max_words`. A template is a
                shipped one by its name, or a file by its path from the YAML's folder: that has an ending.

        Raises:
            RagtasksError: a template that is not there or cannot be filled.
        """
        options = dict(yaml.get("dataset_kwargs") or {})
        _refuse_misplaced(yaml, options)
        closed_book = yaml.get("closed_book_prompt", yaml.get("prompt", _CLOSED_BOOK))
        system = closed_book if evaluation.run == CLOSED_BOOK else yaml.get("prompt", _SYSTEM)
        self.system = _loaded(evaluation.system_prompt, system, yaml)
        self.plain = _loaded(evaluation.plain_prompt, yaml.get("plain_prompt", _PLAIN), yaml)
        self.max_words = evaluation.max_words or options.get("max_words", _MAX_WORDS)
        self._folds = evaluation.system_role == "user"
        self.renderer = self._fresh_renderer()

    def forget_model(self) -> None:
        """Begin anew with what is known of a chat template: another model may be asked."""
        self.renderer = self._fresh_renderer()

    def _fresh_renderer(self) -> ChatRenderer:
        return ChatRenderer(folds=self._folds)

    def messages(self, doc: Doc, instruction: str | None) -> ChatMessages:
        """Return what a chat model is sent."""
        return chat_messages(doc, self._system_text(doc, instruction))

    def text(self, doc: Doc, instruction: str | None) -> str:
        """Return what a model without a chat template is sent."""
        system = self._system_text(doc, instruction)
        return self.plain.render(system=system, history=doc["history"], question=doc["question"]).rstrip("\n")

    def _system_text(self, doc: Doc, instruction: str | None) -> str:
        return system_text(doc, self.system, max_words=self.max_words, instruction=instruction)

    def decides(self) -> dict[str, Any]:
        """Return what prompts depend on beside their docs."""
        return {
            "system_prompt": self.system.sha256,
            "plain_prompt": self.plain.sha256,
            "max_words": self.max_words,
        }

    def provenance(self) -> dict[str, str]:
        """Return what results say of the templates."""
        return {"system": _named(self.system), "plain": _named(self.plain)}


def _refuse_misplaced(yaml: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse names of templates where nothing reads them, so that the prompt is never another than the YAML says."""
    misplaced = [key for key in YAML_KEYS if key in options]
    if misplaced:
        message = clear_error(
            "prompt template",
            where=f"{_source(yaml)}, dataset_kwargs",
            expected=f"{', '.join(misplaced)} beside dataset_kwargs, where the task's other keys are",
            found=f"{', '.join(misplaced)} in it",
            next_step="move these lines out of dataset_kwargs",
        )
        raise ConfigurationError(message)


def _loaded(path: str | None, name: Any, yaml: Mapping[str, Any]) -> PromptTemplate:
    """Return the template at the user's `path`, else the one that a YAML names."""
    if path is None and isinstance(name, str) and Path(name).suffix:
        path = str(Path(_source(yaml)).parent / Path(name).expanduser())
    try:
        return load_template(path, name)
    except (OSError, AttributeError, TypeError) as error:
        message = clear_error(
            "prompt template",
            where=_source(yaml),
            expected=f"the name of a shipped template, such as {_SYSTEM}, or a file with an ending, such as mine.jinja",
            found=repr(name),
            next_step="name one of these; a file is looked for in the folder of the YAML",
        )
        raise ConfigurationError(message) from error


def _source(yaml: Mapping[str, Any]) -> str:
    """Return the path of a task's file, as the harness notes it."""
    return str((yaml.get("metadata") or {}).get("config_source", "inline"))


def _named(template: PromptTemplate) -> str:
    return f"{template.name} ({template.sha256[:16]})"


__all__ = ["YAML_KEYS", "TaskPrompts"]
