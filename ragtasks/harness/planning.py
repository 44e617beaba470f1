"""What an evaluation will take, before any model runs: prompts, tokens, the context they need, judges' calls, cost.

The prompts are those that the tasks build. Their tokens are counted by a tokeniser that the user names, with its chat
template, and otherwise estimated from their words. What the model will answer and judges will be asked is counted on
the reference answers, since a model's own are not there yet, and what judges reply on the form that they are asked for.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import ROWS, Benchmark, response_of, rows_benchmark
from ragtasks.clients import Endpoint, Price, Progress, dollars_of, no_progress
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.files import NO_CODE, from_cache, loading
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.run import load_tasks
from ragtasks.judges import Finding, Question, UnparsableReplyError, read_anchors
from ragtasks.metrics import RuleBasedIdk, is_settled, parse_cited
from ragtasks.records import Answerability, IdkVerdict, Response
from ragtasks.results import SavedTask
from ragtasks.scoring import Place, given_metrics, open_named
from ragtasks.suites import Suite, suite_named
from ragtasks.tables import Cell, Table

# Tokens of a word, a mark, a letter and a digit: fitted to three tokenisers (two of today's models, one of an encoder)
# on MTRAG's passages, conversations and answers and on judge prompts, whose blocks it meets within 12 %. Words of other
# languages than English are cut into smaller pieces, and other scripts into smaller still.
_A_WORD, _A_MARK, _A_LETTER, _A_DIGIT = 0.44, 0.64, 0.135, 1.22
_A_FOREIGN_LETTER, _AN_ACCENT, _AN_IDEOGRAPH, _OF_ANOTHER_SCRIPT = 0.24, 1.0, 0.7, 0.31
_ENGLISH = re.compile(r" (?:the|of|and|to|in|is|a) ")
_ENGLISH_SHARE = 0.08  # of words, from which on a text is English
_FEW_WORDS = 20  # of which nobody can tell the language
_FRAME = 4  # tokens around a message
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_REFUSAL = "I do not know."
_EXPLANATION = (
    "The answer follows the passages in what it states and leaves out one condition that the reference names. " * 2
)
_CONTEXTS = (2048, 4096, 8192, 16384, 32768, 131072)
_MINUTES_AN_HOUR = 60
_JUDGE_REPLY = 1024  # tokens, where an endpoint says no other limit

Count = Callable[[list[dict[str, str]]], int]
"""Messages -> tokens of the prompt."""


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """What one setting of one benchmark takes."""

    name: str
    tokens: tuple[int, ...]
    """Tokens of each prompt, ascending."""
    reply_tokens: int
    """The longest reply that is allowed, in tokens."""
    answer_tokens: int = 0
    """Tokens of all answers, if they are as long as the reference answers."""

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
    reply_tokens: int = 0
    """Tokens of all replies, in the form that is asked for."""


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
    """Return what each setting takes, and each judge, for harness tasks and groups by name.

    `limit` is lm_eval's; `reply_tokens` is the longest reply where that is not the tasks' own.
    """
    progress("reading tasks", 0, None)
    tasks = load_tasks(names, {**metadata, "encoder": "none"})
    progress("reading tasks", len(tasks), len(tasks))
    foreign = [str(task.config.task) for task in tasks if not isinstance(task, ConversationTask)]
    if foreign or not tasks:
        raise ConfigurationError(f"plan: {', '.join(foreign) or names} is not a task of conversations")
    by_setting: dict[str, list[ConversationTask]] = {}
    for task in tasks:
        by_setting.setdefault(f"{task.benchmark.label}, {task.setting}", []).append(task)
    docs = {task: _limited(task.dataset["test"], limit) for group in by_setting.values() for task in group}
    plans = [
        SettingPlan(name, *_prompts({task: docs[task] for task in group}, count, reply_tokens, progress))
        for name, group in by_setting.items()
    ]
    return plans, _judging(docs, count, progress) if with_judges else JudgingPlan(0, 0)


def _limited(docs: Any, limit: float | None) -> list[dict[str, Any]]:
    """Return the docs that the harness would ask about: all, the first so many, or the first share below 1."""
    if limit is None:
        return list(docs.to_list())
    return list(docs.to_list()[: math.ceil(len(docs) * limit) if limit < 1 else int(limit)])


_Docs = Mapping[ConversationTask, Sequence[dict[str, Any]]]


def _prompts(
    tasks: _Docs, count: Count, reply_tokens: int | None, progress: Progress
) -> tuple[tuple[int, ...], int, int]:
    tokens: list[int] = []
    reply, n_answered, n_docs = 0, 0, sum(len(docs) * task.evaluation.best_of for task, docs in tasks.items())
    for task, docs in tasks.items():
        reply = max(reply, int((task.config.generation_kwargs or {}).get("max_gen_toks", 256)))
        for doc in docs:
            tokens += [count(task.messages(doc))] * task.evaluation.best_of
            n_answered += task.evaluation.best_of * _of_reply(count, doc["target"] or _REFUSAL)
            progress(f"counting tokens of prompts: {task.setting}", len(tokens), n_docs)
    return tuple(sorted(tokens)), reply_tokens or reply, n_answered


def _of_reply(count: Count, text: str) -> int:
    """Return the tokens of a text alone."""
    return count([{"role": "user", "content": text}]) - count([{"role": "user", "content": ""}])


def _judging(tasks: _Docs, count: Count, progress: Progress) -> JudgingPlan:
    return _judged(
        [
            _Judged(suite_named(task.suite_name), task.benchmark, task.evaluation, tuple(map(_as_answered, docs)))
            for task, docs in tasks.items()
        ],
        count,
        progress,
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """A response that judges are asked about."""

    response: Response
    states: bool
    """Whether it says something that can be judged sentence by sentence."""
    verdict: IdkVerdict | None


@dataclass(frozen=True, slots=True)
class _Judged:
    """Responses that judges are asked the same of."""

    suite: Suite
    benchmark: Benchmark
    config: EvaluationConfig
    answers: Sequence[_Answer]


def _as_answered(doc: Mapping[str, Any]) -> _Answer:
    """Return the reference answer as a response: no other is there before the model runs."""
    states = doc["answerability"] != Answerability.UNANSWERABLE.value
    return _Answer(response_of(doc, doc["target"] or _REFUSAL), states, IdkVerdict.NO)


def judging_of(tasks: Sequence[SavedTask], count: Count, place: Place, progress: Progress = no_progress) -> JudgingPlan:
    """Return what judges will be asked of answers that are there, which rules read for refusals."""
    groups = []
    for task in tasks:
        opened = rows_benchmark(()) if task.benchmark == ROWS else open_named(task.benchmark, task.config.data, place)
        suite = suite_named(task.provenance.get("suite") or opened.suite)
        given = [response for response in task.responses if not response.no_answer]
        verdicts = [label.verdict for label in RuleBasedIdk(suite.known_refusals).detect(given)]
        answers = [
            _Answer(response, verdict is not IdkVerdict.YES, verdict)
            for response, verdict in zip(given, verdicts, strict=True)
        ]
        groups.append(_Judged(suite, opened, task.config, answers))
    return _judged(groups, count, progress)


def _judged(groups: Sequence[_Judged], count: Count, progress: Progress) -> JudgingPlan:
    totals = [0.0, 0.0, 0.0]
    n_done, n_answers = 0, sum(len(group.answers) for group in groups)
    for group in groups:
        counts = [0, 0, 0]
        config, settled = group.config, group.suite.settled if group.config.skip_settled else ()
        rubrics = group.suite.rubrics_in(config.prompts, group.benchmark)
        for answer in group.answers:
            n_done += 1
            progress("counting what judges will be sent", n_done, n_answers)
            is_known = is_settled(answer.response.task.answerability, answer.verdict)
            statements = [one.text for one in parse_cited(answer.response.text, 0)] if answer.states else []
            for rubric in rubrics:
                if is_known and rubric.name in settled:
                    continue
                for question, reply in _questions(rubric.open(answer.response), statements):
                    found = 1, count([{"role": "user", "content": question.text}]), _of_reply(count, reply)
                    counts = [before + more for before, more in zip(counts, found, strict=True)]
        judgings = 1 + (config.repeats - 1) * config.repeat_share
        totals = [total + judgings * n for total, n in zip(totals, counts, strict=True)]
    # Anchors are other answers; what judges are asked about one of them is taken to be as much as about a task.
    share = _n_anchors(groups[0].config) / n_answers if n_answers else 0.0
    return JudgingPlan(*(math.ceil((1 + share) * total) for total in totals))


def _n_anchors(config: EvaluationConfig) -> int:
    named = config.anchors
    if isinstance(named, str):
        return len(read_anchors(Path(named).expanduser()).responses)
    return named or 0


def _questions(first: Question | Finding, statements: Sequence[str]) -> Iterator[tuple[Question, str]]:
    """Yield what a judge is asked with what it replies, if it takes each sentence for a statement."""
    question = first
    while isinstance(question, Question):
        reply = _reply_to(question, statements)
        yield question, reply
        try:
            question = question.read(reply)
        except UnparsableReplyError:  # a form of official words, or of another package: one step, as far as is known
            return


def _reply_to(question: Question, statements: Sequence[str]) -> str:
    """Return a reply in the form that a question asks for; a rating has an explanation before it."""
    fields = (question.schema or {}).get("properties") or {}
    if "id" not in fields:
        is_label = question.form.endswith("LABEL")
        return ("" if is_label else _EXPLANATION) + question.form.replace(": LABEL", ": no").replace(": N", ": 7")
    kinds: Mapping[str, Any] = {
        "array": list(statements) if "statements" in fields else ["What does the answer say about it?"] * 3,
        "object": {str(number): "yes" for number in range(1, max(len(statements), 1) + 1)},
    }
    reply = {name: kinds.get(kind.get("type"), "no") for name, kind in fields.items()}
    return json.dumps(reply | {"id": fields["id"]["const"]})


def estimated_tokens(messages: list[dict[str, str]]) -> int:
    """Return an estimate of a prompt's tokens from its words, a few for each message's frame."""
    return round(sum(_estimated(message["content"]) + _FRAME for message in messages))


def _estimated(text: str) -> float:
    n_words = len(text.split())
    n_marks, n_digits = (sum(map(text.count, signs)) for signs in (string.punctuation, string.digits))
    n_letters = len(text) - n_marks - sum(map(text.count, string.whitespace))
    others = "" if text.isascii() else "".join(_NOT_ASCII.findall(text))
    kinds = Counter(map(_script, others))
    n_letters -= kinds["ideograph"] + kinds["other"]
    english = min(1.0, len(_ENGLISH.findall(text)) / max(1.0, _ENGLISH_SHARE * n_words))
    a_letter = _A_LETTER if n_words < _FEW_WORDS else english * _A_LETTER + (1 - english) * _A_FOREIGN_LETTER
    n_latin = _A_WORD * n_words + _A_MARK * n_marks + a_letter * n_letters + _A_DIGIT * n_digits
    foreign = _AN_IDEOGRAPH * kinds["ideograph"] + _OF_ANOTHER_SCRIPT * kinds["other"] + _AN_ACCENT * kinds["accent"]
    return n_latin + foreign


def _script(letter: str) -> str:
    """Return which kind a letter beyond ASCII is: of a Latin word, of a script of whole syllables or words, another."""
    if letter < "\u0250" or not letter.isalpha():
        return "accent" if letter.isalpha() else "mark"
    return "ideograph" if "\u3040" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af" else "other"


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
    how = "estimated from words, marks and digits" if is_estimate else "counted"
    note = (
        f"Tokens of a prompt, {how}; of the longest reply that is allowed; of the context that holds both; "
        "and the share of prompts that a context of so many tokens holds with that reply."
    )
    return Table("Prompts", columns, tuple(rows), note)


def answers_table(tasks: Mapping[str, Sequence[SavedTask]]) -> Table:
    """Return how many answers are there to be scored, of each system to each benchmark; a key names a system."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for name, members in tasks.items():
        for task in members:
            for row, response in zip(task.rows, task.responses, strict=True):
                setting = "-" if task.benchmark == ROWS else str(row["doc"]["setting"])
                key = name, str(task.provenance["benchmark"]), setting
                counts.setdefault(key, [0, 0])[bool(response.no_answer)] += 1
    rows: tuple[tuple[Cell, ...], ...] = tuple((*key, *found) for key, found in counts.items())
    return Table("Answers", ("system", "benchmark", "setting", "answers", "without an answer"), rows)


def scores_note(tasks: Iterable[SavedTask]) -> dict[str, str]:
    """Return which scores answers will have, and which not, as nobody is named who judges."""
    suites = {(task.provenance.get("suite"), task.config) for task in tasks}
    metrics = {metric.name: metric for name, _ in suites if name for metric in suite_named(name).metrics}
    given = {name for _, config in suites for name in given_metrics(metrics.values(), config)}
    left_out = [name for name, metric in metrics.items() if name not in given and not metric.needs_official_prompts]
    note = {"scores": ", ".join(name for name in metrics if name in given)}
    return {**note, **({"only with --judge": ", ".join(left_out)} if left_out else {})}


def system_table(plans: Sequence[SettingPlan]) -> Table:
    """Return how often a system of one's own is asked; what it reads and writes nobody knows."""
    rows = tuple((item.name, len(item.tokens)) for item in plans)
    return Table("Requests to the system", ("setting", "requests"), rows)


def conversations_table(planned: Sequence[tuple[int, int, int]]) -> Table:
    """Return what a simulated user and a system will say, of needs and bounds of each conversation."""
    needs, least, most = (sum(column) for column in zip(*planned, strict=True))
    n = len(planned)
    rows = (
        ("conversations", n, n),
        ("needs", needs, needs),
        ("requests to the system", least, most),
        ("replies of the user", least + n, 2 * (most + n)),
    )
    note = (
        "At least: each need is met at once, or the user soon leaves. At most: each is met by the last message that "
        "patience allows, and each reply of the user is asked for twice. Replies that are cached already are free; "
        "tokens depend on what both say."
    )
    return Table("Conversations with the simulated user", ("what", "at least", "at most"), rows, note)


def spending_table(
    plans: Sequence[SettingPlan], judging: JudgingPlan, evaluation: EvaluationConfig, *, are_there: bool = False
) -> Table:
    """Return what the model and each judge are sent, reply and cost; `are_there` says that the answers are there."""
    rows: list[tuple[Cell, ...]] = []
    for item in plans:
        used = (len(item.tokens), sum(item.tokens), item.answer_tokens)
        longest = len(item.tokens) * item.reply_tokens
        rows.append((f"model, {item.name}", *used, *_costs(evaluation.price, used, longest), "-"))
    for judge in evaluation.judges:
        price = judge.price if isinstance(judge, Endpoint) else None
        used = (judging.n_calls, judging.tokens, judging.reply_tokens)
        longest = judging.n_calls * ((judge.max_tokens if isinstance(judge, Endpoint) else None) or _JUDGE_REPLY)
        costs = _costs(price, used, longest)
        rows.append((f"judge {judge.model}", *used, *costs, _hours_at_least(judge, judging)))
    taken = "" if are_there else "answers are as long as the reference answers, "
    note = (
        f"If {taken}each sentence is a statement of RL_F's second step, and judges reply in the form that they are "
        "asked for, without thinking; cached replies are free. At most: replies as long as allowed; hours: what a "
        "judge's account allows at best; - without a price, and without limits."
    )
    columns = ("part", "requests", "input tokens", "output tokens", "$", "$ at most", "hours at least")
    return Table("Requests, tokens, dollars", columns, tuple(rows), note)


def _costs(price: Price | None, used: tuple[int, int, int], longest: int) -> tuple[str, str]:
    """Return dollars for what is expected, and for replies as long as allowed."""
    if price is None:
        return "-", "-"
    expected, most = (dollars_of(price, used[1], n) for n in (used[2], longest))
    return f"{expected:,.2f}", f"{most:,.2f}"


def _hours_at_least(judge: object, judging: JudgingPlan) -> str:
    """Return how long a judge's account takes for all prompts, replies not counted."""
    if not isinstance(judge, Endpoint):
        return "-"
    work = ((judging.n_calls, judge.requests_per_minute), (judging.tokens, judge.tokens_per_minute))
    minutes = [n / limit for n, limit in work if limit is not None]
    return f"{max(minutes) / _MINUTES_AN_HOUR:.2f}" if minutes else "-"


def hours(plans: Sequence[SettingPlan], prompts_per_minute: float) -> float:
    """Return how long the answers take at a rate, in hours."""
    return sum(len(item.tokens) for item in plans) / prompts_per_minute / _MINUTES_AN_HOUR
