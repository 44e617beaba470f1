"""The harness task of a query rewriting model: the conversation is the input, a query the output.

The conversation is a single user message instead of turns, because a model that receives its own turns continues them
and answers. The prompts of the paper and of the precompute stage have the same form, so a model rewrites identically
here and in the precompute stage.
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

    The YAML has the `dataset_kwargs` of `ConversationTask` and `contract`, the form of a reply (`json` or
    `conditional`). Templates receive `history` and `question`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs and check options, templates and the retriever's name before a model runs."""
        self._contract = CONTRACTS[dict((config or {}).get("dataset_kwargs") or {})["contract"]]
        super().__init__(config)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Build this task's docs."""
        self._load_docs(rewriting_tasks(self.benchmark, self._contract), dict(dataset_kwargs or {}))

    def _messages(self, doc: Doc, instruction: str | None) -> list[dict[str, str]]:
        """Return one user message."""
        return [{"role": "user", "content": _filled(self._prompts.system, doc, instruction)}]

    def _render_plain(self, doc: Doc, instruction: str | None) -> str:
        return _filled(self._prompts.plain, doc, instruction)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests and index the corpora of the queries, so that errors occur before the run."""
        super().build_all_requests(**options)
        self.scorer.prepare(self.dataset["test"].unique("domain"))


def _filled(template: PromptTemplate, doc: Doc, instruction: str | None) -> str:
    own = template.render(history=doc["history"], question=doc["question"]).strip()
    return f"{instruction}\n\n{own}" if instruction else own
