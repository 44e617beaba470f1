"""The harness task of a rewriting model: a conversation as text in, a query out.

The conversation is material here, so it is not handed over turn by turn: a model that sees its own turns goes on with
them and answers. One user message holds all of it, as in the paper's prompt and in the precompute stage's, so that a
model rewrites the same way in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtasks.benchmarks import CONTRACTS, Doc
from ragtasks.benchmarks.mtrag import rewriting_tasks
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.prompts import PromptTemplate


class RewriteTask(ConversationTask):
    """The judged questions of a benchmark, to be rewritten.

    Its YAML gives `dataset_kwargs` as for `ConversationTask`, and `contract`: how a reply must look (`json` or
    `conditional`). Templates are filled with `history` and `question`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs, and check options, templates and the retriever's name, before a model runs."""
        self._contract = CONTRACTS[dict((config or {}).get("dataset_kwargs") or {})["contract"]]
        super().__init__(config)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Build this task's docs."""
        self._take_docs(rewriting_tasks(self.benchmark, self._contract), dict(dataset_kwargs or {}))

    def _messages(self, doc: Doc, instruction: str | None) -> list[dict[str, str]]:
        """Return one user message."""
        return [{"role": "user", "content": _filled(self._prompts.system, doc, instruction)}]

    def _render_plain(self, doc: Doc, instruction: str | None) -> str:
        return _filled(self._prompts.plain, doc, instruction)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests, then index the corpora that the queries will be searched in: what fails, fails now."""
        super().build_all_requests(**options)
        self.scorer.prepare(self.dataset["test"].unique("domain"))


def _filled(template: PromptTemplate, doc: Doc, instruction: str | None) -> str:
    own = template.render(history=doc["history"], question=doc["question"]).strip()
    return f"{instruction}\n\n{own}" if instruction else own
