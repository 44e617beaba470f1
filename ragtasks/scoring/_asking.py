"""Asks a RAG system behind HTTP every task of a setting; what came is kept until everything is saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, Doc, contexts_to_export, exported_tasks
from ragtasks.clients import (
    CachedClient,
    ChatMessage,
    Endpoint,
    Journal,
    Outcome,
    Prompt,
    Reply,
    ReplyCache,
    Secrets,
    SystemClient,
    SystemProtocol,
)
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError, JudgeError, ModelError, clear_error
from ragtasks.logs import GivenAnswer
from ragtasks.progress import progress_bars
from ragtasks.records import Setting
from ragtasks.scoring._failures import record_failure

_ASK_AGAIN = "Next step: run the same command again: only these are asked"
_SHOWN = 3


class System:
    """One RAG system, and what it is sent in a setting."""

    def __init__(self, endpoint: Endpoint, protocol: SystemProtocol, secrets: Secrets) -> None:
        """Name the system.

        Args:
            endpoint: address, limits and patience.
            protocol: what is sent and read.
            secrets: variable -> key.

        Raises:
            ConfigurationError: the variable that the endpoint names is not set.
        """
        self._client, self._protocol = SystemClient(endpoint, protocol, secrets), protocol

    def gives_passages(self, setting: Setting) -> bool:
        """Return whether the system is sent passages: it retrieves for itself in full RAG only.

        Raises:
            ConfigurationError: the setting's passages cannot be sent in this protocol.
        """
        if setting is Setting.FULL_RAG:
            return False
        if self._protocol is SystemProtocol.PLAIN:
            return True
        message = clear_error(
            "endpoint",
            where=f"protocol openai in setting {setting.value}",
            expected="setting full_rag: a chat request has no place for the setting's passages",
            found=f"setting {setting.value}",
            next_step="take --protocol plain; or evaluate the model behind it: `ragtasks run --model "
            "local-chat-completions`, which puts the passages into the system message",
        )
        raise ConfigurationError(message)

    def ask(
        self, tasks: Sequence[Mapping[str, Any]], journal: Journal | None = None, cache: Path | None = None
    ) -> list[GivenAnswer]:
        """Return one answer a task, in order; one that did not come says why.

        Args:
            tasks: `id`, `messages` and, where the setting gives them, `contexts`, as they are exported.
            journal: told of every reply as it comes.
            cache: file in which replies are kept and looked up; None: nowhere.

        Raises:
            ModelError: nothing can be had from the system any more; what came is kept.
            CacheError: the file cannot be used.
            MissingExtraError: `openai` or `aiohttp` is not installed.
        """
        prompts = [_prompt(task) for task in tasks]
        try:
            with progress_bars() as progress:
                if cache is None:
                    replies = self._client.answer(prompts, progress, journal)
                else:
                    with ReplyCache(cache) as kept:
                        replies = CachedClient(self._client, kept).answer(prompts, progress, journal)
        except JudgeError as error:
            raise ModelError(str(error)) from error
        return [self.answer_in(reply, "contexts" in task) for reply, task in zip(replies, tasks, strict=True)]

    def answer_in(self, reply: Reply, had_passages: bool) -> GivenAnswer:
        """Return what a reply says; a system that was sent no passages and names none answered from none."""
        if reply.outcome is not Outcome.ANSWERED or reply.text is None:
            return GivenAnswer("", no_answer=reply.reason or "no reply")
        passages = self._client.contexts(reply)
        return GivenAnswer(reply.text, passages if passages is not None or had_passages else ())


def _prompt(task: Mapping[str, Any]) -> Prompt:
    messages = tuple(ChatMessage(item["role"], item["content"]) for item in task["messages"])
    return Prompt(messages, body={key: task[key] for key in ("id", "contexts") if key in task}, kind="answer")


def asked_of(doc: Doc, *, with_passages: bool) -> dict[str, Any]:
    """Return what a system is asked of a doc, in the form of exported tasks."""
    question = {"role": "user", "content": doc["question"]}
    asked = {"id": doc["task_id"], "messages": [*doc["history"], question]}
    if with_passages:
        keys = {"id": "passage_id", "title": "title", "text": "text"}
        asked["contexts"] = [{name: item[key] for name, key in keys.items()} for item in doc["passages"]]
    return asked


def ask_endpoint(
    system: System, setting: Setting, store: Path
) -> Callable[[Benchmark, EvaluationConfig, Path], Mapping[str, GivenAnswer]]:
    """Return what asks a system every task of a setting, for `score_own`.

    Args:
        system: who is asked.
        setting: decides the tasks, and whether passages are sent.
        store: folder of the stored runs.
    """
    gives = system.gives_passages(setting)

    def answering(benchmark: Benchmark, config: EvaluationConfig, file: Path) -> Mapping[str, GivenAnswer]:
        contexts = contexts_to_export(benchmark, setting, config.run, store, is_needed=gives)
        rows = exported_tasks(benchmark, contexts, conversational=config.conversational, with_contexts=gives)
        tasks = list(rows)
        file.parent.mkdir(parents=True, exist_ok=True)
        answers = system.ask(tasks, cache=unfinished_file(file))
        _report_failures(answers)
        return {task["id"]: answer for task, answer in zip(tasks, answers, strict=True)}

    return answering


def unfinished_file(results: Path) -> Path:
    """Return where the answers of an evaluation are kept that is not saved yet."""
    return results.with_name(f"unfinished_{results.stem.removeprefix('results_')}.sqlite")


def _report_failures(answers: Sequence[GivenAnswer]) -> None:
    reasons = Counter(answer.no_answer for answer in answers if answer.no_answer)
    if reasons:
        shown = "; ".join(f"{reason} ({n} times)" for reason, n in reasons.most_common(_SHOWN))
        record_failure(f"{reasons.total()} of {len(answers)} requests got no answer: {shown}. {_ASK_AGAIN}")


__all__ = ["System", "ask_endpoint", "asked_of", "unfinished_file"]
