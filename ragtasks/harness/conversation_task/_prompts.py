"""The prompts of one harness task: its templates, filled with a doc, as messages or as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtasks.benchmarks import Doc
from ragtasks.config import EvaluationConfig
from ragtasks.files import CLOSED_BOOK
from ragtasks.harness.conversation_task._chat import ChatMessages, ChatRenderer, chat_messages, system_text
from ragtasks.templates import PromptTemplate, load_template

_MAX_WORDS = 150  # what the MTRAG prompts ask for


class TaskPrompts:
    """Two templates and a limit: the system text, and all of a prompt without a chat template."""

    def __init__(self, evaluation: EvaluationConfig, options: Mapping[str, Any]) -> None:
        """Load the templates: those of the configuration, else of the YAML, else the usual ones.

        Args:
            evaluation: names templates and limits that go before those of the task.
            options: `dataset_kwargs` of the task: `prompt`, `plain_prompt`, `max_words`.

        Raises:
            RagtasksError: a template that is not there or cannot be filled.
        """
        usual = "generation/closed_book" if evaluation.run == CLOSED_BOOK else "generation/system"
        self.system = load_template(evaluation.system_prompt, options.get("prompt", usual))
        self.plain = load_template(evaluation.plain_prompt, options.get("plain_prompt", "generation/plain"))
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


def _named(template: PromptTemplate) -> str:
    return f"{template.name} ({template.sha256[:16]})"


__all__ = ["TaskPrompts"]
