"""What an evaluation will take, before any model runs: prompts, tokens, the context they need, judges' calls, cost.

The prompts are those that the tasks build. Their tokens are counted by a tokeniser that the user names, with its chat
template, and otherwise estimated from their characters. What judges will be asked is counted on the reference answers,
since a model's own are not there yet: RL_F asks once more where an answer states something, and shows all passages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import response_of
from ragtasks.clients import Endpoint, Price, Progress, no_progress
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.files import NO_CODE, from_cache, loading
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.run import load_tasks
from ragtasks.judges import Finding, Question, UnparsableReplyError, read_anchors
from ragtasks.metrics import is_settled, parse_cited
from ragtasks.records import Answerability, IdkVerdict
from ragtasks.suites import suite_named
from ragtasks.tables import Cell, Table

CHARACTERS_A_TOKEN = 4.0
"""What the estimate divides by; English text has 4 to 4.5 characters a token in the tokenisers of today's models."""
_CONTEXTS = (2048, 4096, 8192, 16384, 32768, 131072)
_MINUTES_AN_HOUR = 60
_JUDGE_REPLY = 1024  # tokens, where an endpoint says no other limit

Count = Callable[[list[dict[str, str]]], int]
"""Messages -> tokens of the prompt."""


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """What one setting of one benchmark takes."""

    name: str
    """Benchmark and setting."""
    tokens: tuple[int, ...]
    """Tokens of each prompt, ascending."""
    reply_tokens: int
    """The longest reply that the task allows, in tokens."""

    @property
    def context(self) -> int:
        """The context that holds the longest prompt with the longest reply."""
        return (self.tokens[-1] if self.tokens else 0) + self.reply_tokens

    def quantile(self, share: float) -> int:
        """Return the tokens that this share of the prompts does not exceed; 0 without prompts."""
        return self.tokens[min(len(self.tokens) - 1, int(share * len(self.tokens)))] if self.tokens else 0

    def share_within(self, context: int) -> float:
        """Return the share of prompts, 0 to 1, that a context holds together with the longest reply."""
        fitting = sum(count + self.reply_tokens <= context for count in self.tokens)
        return fitting / len(self.tokens) if self.tokens else 1.0


@dataclass(frozen=True, slots=True)
class JudgingPlan:
    """What judges will be asked, each of them."""

    n_calls: int
    """Prompts, a second step of a rubric included."""
    tokens: int
    """Tokens of all prompts."""


def plan(
    names: Sequence[str],
    metadata: Mapping[str, Any],
    count: Count,
    *,
    with_judges: bool = True,
    progress: Progress = no_progress,
) -> tuple[list[SettingPlan], JudgingPlan]:
    """Return what each setting takes, and each judge, for harness tasks and groups by name."""
    progress("reading tasks", 0, None)
    tasks = load_tasks(names, {**metadata, "encoder": "none"})
    progress("reading tasks", len(tasks), len(tasks))
    foreign = [str(task.config.task) for task in tasks if not isinstance(task, ConversationTask)]
    if foreign or not tasks:
        raise ConfigurationError(f"plan: {', '.join(foreign) or names} is not a task of conversations")
    by_setting: dict[str, list[ConversationTask]] = {}
    for task in tasks:
        by_setting.setdefault(f"{task.benchmark.label}, {task.setting}", []).append(task)
    plans = [SettingPlan(name, *_prompts(group, count, progress)) for name, group in by_setting.items()]
    return plans, _judging(tasks, count, progress) if with_judges else JudgingPlan(0, 0)


def _prompts(tasks: Sequence[ConversationTask], count: Count, progress: Progress) -> tuple[tuple[int, ...], int]:
    tokens: list[int] = []
    reply, n_docs = 0, sum(len(task.dataset["test"]) for task in tasks)
    for task in tasks:
        reply = max(reply, int((task.config.generation_kwargs or {}).get("max_gen_toks", 256)))
        for doc in task.dataset["test"].to_list():
            tokens.append(count(task.messages(doc)))
            progress(f"counting tokens of prompts: {task.setting}", len(tokens), n_docs)
    return tuple(sorted(tokens)), reply


def _judging(tasks: Sequence[ConversationTask], count: Count, progress: Progress) -> JudgingPlan:
    total_calls = total_tokens = 0.0
    n_done, n_docs = 0, sum(len(task.dataset["test"]) for task in tasks)
    for task in tasks:
        n_calls = n_tokens = 0
        suite = suite_named(task.suite_name)
        rubrics = suite.rubrics_in(task.evaluation.prompts, task.benchmark)
        for doc in task.dataset["test"].to_list():
            n_done += 1
            progress("counting what judges will be sent", n_done, n_docs)
            for rubric in rubrics:
                answer = doc["target"] or "I do not know."
                if task.evaluation.skip_settled and rubric.name in suite.settled and _is_settled(doc):
                    continue
                for question in _questions(rubric.open(response_of(doc, answer)), answer):
                    n_calls += 1
                    n_tokens += count([{"role": "user", "content": question.text}])
        judgings = 1 + (task.evaluation.repeats - 1) * task.evaluation.repeat_share
        total_calls, total_tokens = total_calls + judgings * n_calls, total_tokens + judgings * n_tokens
    # Anchors are other answers; what judges are asked about one of them is taken to be as much as about a task.
    share = _n_anchors(tasks) / n_docs if n_docs else 0.0
    return JudgingPlan(math.ceil((1 + share) * total_calls), math.ceil((1 + share) * total_tokens))


def _is_settled(doc: Mapping[str, Any]) -> bool:
    """Return whether judges are left unasked about any response to a task, if not about a refusal."""
    return is_settled(Answerability(doc["answerability"]), IdkVerdict.NO)


def _n_anchors(tasks: Sequence[ConversationTask]) -> int:
    named = tasks[0].evaluation.anchors
    if isinstance(named, str):
        return len(read_anchors(Path(named).expanduser()).responses)
    return named or 0


def _questions(first: Question | Finding, answer: str) -> Iterator[Question]:
    """Yield what a judge is asked, one question after the other, if it takes each sentence for a statement."""
    statements = [sentence.text for sentence in parse_cited(answer, 0)]
    requests = first
    while isinstance(requests, Question):
        yield requests
        code = ((requests.schema or {}).get("properties") or {}).get("id", {}).get("const")
        try:
            requests = requests.read(json.dumps({"id": code, "statements": statements}))
        except UnparsableReplyError:  # this question asks for something else than statements
            return


def estimated_tokens(messages: list[dict[str, str]]) -> int:
    """Return an estimate of a prompt's tokens from its characters, a few for each message's frame."""
    return round(sum(len(message["content"]) / CHARACTERS_A_TOKEN + 4 for message in messages))


def counter(tokenizer: str | None) -> Count:
    """Return what counts tokens: a tokeniser by its name or path, or the estimate."""
    if tokenizer is None:
        return estimated_tokens
    next_step = "name a folder or a model of the hub, or leave it out for an estimate"
    with loading(
        "--tokenizer", tokenizer, expected="a tokeniser that can be loaded", next_step=next_step, has_weights=False
    ):
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(tokenizer, **NO_CODE, **from_cache(tokenizer))
    return partial(_counted, loaded)


def _counted(tokenizer: Any, messages: list[dict[str, str]]) -> int:
    if tokenizer.chat_template is None:
        return len(tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"])
    return len(tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False))


def prompts_table(plans: Sequence[SettingPlan], *, is_estimate: bool) -> Table:
    """Return the prompts as a table: how many, their tokens, the context that holds all."""
    needed = max((item.context for item in plans), default=0)
    contexts = [size for size in _CONTEXTS if size < 2 * needed][-4:] or [_CONTEXTS[0]]
    columns = (
        "setting",
        "prompts",
        "median",
        "p99",
        "longest",
        "reply",
        "context",
        *(f"{size:,}" for size in contexts),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            item.name,
            len(item.tokens),
            *(item.quantile(share) for share in (0.5, 0.99, 1.0)),
            item.reply_tokens,
            item.context,
            *(f"{item.share_within(size):.1%}" for size in contexts),
        )
        for item in plans
    ]
    how = f"estimated at {CHARACTERS_A_TOKEN:g} characters a token" if is_estimate else "counted"
    note = (
        f"Tokens of a prompt, {how}; of the longest reply that the task allows; of the context that holds both; "
        "and the share of prompts that a context of so many tokens holds with that reply."
    )
    return Table("Prompts", columns, tuple(rows), note)


def judges_table(judging: JudgingPlan, evaluation: EvaluationConfig) -> Table:
    """Return what each judge is asked and costs, at least for prompts and at most with replies."""
    rows: list[tuple[Cell, ...]] = []
    for judge in evaluation.judges:
        price = judge.price if isinstance(judge, Endpoint) else None
        longest = judging.n_calls * ((judge.max_tokens if isinstance(judge, Endpoint) else None) or _JUDGE_REPLY)
        least, most = (_dollars(price, judging.tokens, n) for n in (0, longest))
        rows.append((judge.model, judging.n_calls, judging.tokens, least, most, _hours_at_least(judge, judging)))
    note = (
        "Counted on the reference answers, each sentence a statement of RL_F's second step; cached replies are free. "
        "At least: prompts alone; at most: with replies as long as allowed; hours: what the account's "
        "limits allow at best; - without a price, and without limits."
    )
    columns = ("judge", "calls", "prompt tokens", "$ at least", "$ at most", "hours at least")
    return Table("Judges", columns, tuple(rows), note)


def _hours_at_least(judge: object, judging: JudgingPlan) -> str:
    """Return how long a judge's account takes for all prompts, replies not counted."""
    if not isinstance(judge, Endpoint):
        return "-"
    work = ((judging.n_calls, judge.requests_per_minute), (judging.tokens, judge.tokens_per_minute))
    minutes = [n / limit for n, limit in work if limit is not None]
    return f"{max(minutes) / _MINUTES_AN_HOUR:.2f}" if minutes else "-"


def _dollars(price: Price | None, prompt_tokens: int, reply_tokens: int) -> str:
    """Return a cost; prices are dollars for a million tokens of prompts, and of replies."""
    return "-" if price is None else f"{(prompt_tokens * price[0] + reply_tokens * price[1]) / 1e6:,.2f}"


def hours(plans: Sequence[SettingPlan], prompts_per_minute: float) -> float:
    """Return how long the answers take at a rate, in hours."""
    return sum(len(item.tokens) for item in plans) / prompts_per_minute / _MINUTES_AN_HOUR
