"""Cost estimate: the prompts of harness tasks and the requests to judges, before any model runs.

The prompts are those of the tasks. Answers and requests to judges are estimated from the reference answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragtasks.benchmarks import response_of
from ragtasks.errors import ConfigurationError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.run import load_tasks
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Answerability, IdkVerdict, Response
from ragtasks.scoring import Count, tokens_of_text
from ragtasks.scoring.planning import JudgedAnswers, JudgingPlan, SettingPlan, judging_plan
from ragtasks.suites import suite_named
from ragtasks.tables import grouped

_REFUSAL = "I do not know."


def plan(
    names: Sequence[str],
    metadata: Mapping[str, Any],
    count: Count,
    *,
    with_judges: bool = True,
    limit: float | None = None,
    reply_tokens: int | None = None,
    progress: Progress = no_progress,
) -> tuple[list[SettingPlan], JudgingPlan]:
    """Return the prompts of each setting and the requests to each judge, for harness tasks and groups.

    Args:
        names: names of tasks and groups.
        metadata: configuration keys.
        count: counts the tokens of messages.
        with_judges: include requests to judges.
        limit: the harness's `--limit`.
        reply_tokens: maximum length of a reply; None for that of the task.
        progress: receives the progress.

    Raises:
        ConfigurationError: if a task is not a `ConversationTask`, or there is no task.
    """
    progress("reading tasks", 0, None)
    tasks = load_tasks(names, {**metadata, "encoder": "none"})
    progress("reading tasks", len(tasks), len(tasks))
    foreign = [str(task.config.task) for task in tasks if not isinstance(task, ConversationTask)]
    if foreign or not tasks:
        raise ConfigurationError(f"plan: {', '.join(foreign) or names} is not a conversation task")
    by_setting = grouped(tasks, lambda task: f"{task.benchmark.label}, {task.setting}")
    docs = {task: _limited(task.dataset["test"], limit) for group in by_setting.values() for task in group}
    plans = [
        _setting_plan(name, {task: docs[task] for task in group}, count, reply_tokens, progress)
        for name, group in by_setting.items()
    ]
    if not with_judges:
        return plans, JudgingPlan(0, 0)
    groups = [
        JudgedAnswers(suite_named(task.suite_name), task.benchmark, task.evaluation, list(map(_reference, rows)))
        for task, rows in docs.items()
    ]
    return plans, judging_plan(groups, count, progress)


def _limited(docs: Any, limit: float | None) -> list[dict[str, Any]]:
    """Return the docs under the harness's limit: all, the first N, or a share below 1."""
    if limit is None:
        return list(docs.to_list())
    return list(docs.to_list()[: math.ceil(len(docs) * limit) if limit < 1 else int(limit)])


def _setting_plan(
    name: str,
    tasks: Mapping[ConversationTask, Sequence[dict[str, Any]]],
    count: Count,
    reply_tokens: int | None,
    progress: Progress,
) -> SettingPlan:
    tokens: list[int] = []
    longest, n_answered, n_docs = 0, 0, sum(map(len, tasks.values()))
    for task, docs in tasks.items():
        longest = max(longest, int((task.config.generation_kwargs or {}).get("max_gen_toks", 256)))
        for doc in docs:
            tokens.append(count(task.messages(doc)))
            n_answered += tokens_of_text(count, doc["target"] or _REFUSAL)
            progress(f"counting tokens of prompts: {task.setting}", len(tokens), n_docs)
    return SettingPlan(name, tuple(sorted(tokens)), reply_tokens or longest, n_answered)


def _reference(doc: Mapping[str, Any]) -> tuple[Response, IdkVerdict]:
    """Return the reference answer as a response, and its refusal label."""
    refuses = doc["answerability"] == Answerability.UNANSWERABLE.value
    return response_of(doc, doc["target"] or _REFUSAL), IdkVerdict.YES if refuses else IdkVerdict.NO
