"""Conversations of a running system with a simulated user, a turn of all of them at a time. Experimental.

The user pursues the needs of a benchmark's conversation: its tasks with their reference answers, which the system
never sees. A need becomes an answer like any other: what the system said to it, the passages that this rests on, and
beside it what the user made of it (`GivenAnswer.need`). A conversation whose user cannot be read, or whose system
fails, breaks off: what was not decided by then is unscored, and the same command asks only the rest.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.clients import (
    CachedClient,
    ChatMessage,
    Client,
    Decoding,
    Endpoint,
    OpenAIClient,
    Progress,
    Prompt,
    Reply,
    ReplyCache,
    calls_of,
    credentials_for,
)
from ragtasks.config import PERSONAS, EvaluationConfig, UserConfig
from ragtasks.config.environment import reply_cache_file, secret
from ragtasks.errors import ConfigurationError
from ragtasks.judges import YES_NO, UnparsableReplyError, code_of, read_coded_object, schema_of
from ragtasks.metrics import answer_text
from ragtasks.progress import in_rounds, progress_bars
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability, Message, Passage, Role, Setting, Task
from ragtasks.results import GivenAnswer
from ragtasks.scoring._failures import record_failure
from ragtasks.scoring._scoring import LocalJudge, ready_judge
from ragtasks.scoring._system import Answering, System, conversations_file, unfinished_file

SATISFIED, FINISHED = "satisfied", "finished"
OUT_OF_PATIENCE, OUT_OF_TURNS = "out of patience", "out of turns"
BROKEN, NO_ANSWER = "user unreadable", "no answer"
_MAX_REASONS = 3


class SimulatedUser:
    """Who plays the user, with a cache of its replies."""

    def __init__(self, config: UserConfig, local_judge: LocalJudge | None = None) -> None:
        """Find who it is."""
        self.config = config
        found = ready_judge(config.model, local_judge)
        if isinstance(found, Endpoint):
            found = OpenAIClient(found, credentials_for(found, secret), Decoding(seed=config.seed))
        self._client: Client = found

    def describe(self) -> dict[str, Any]:
        """Return what decides what it says, for the results."""
        own = self.config.model_dump(mode="json", exclude={"model"})
        return {"model": self.config.model.model, **own, "prompt": TEMPLATE.sha256[:16], "experimental": True}

    def turns(self, situations: Sequence[Situation], progress: Progress) -> list[_UserReply]:
        """Return the reply of each user, who is asked once more where it cannot be used."""
        with ReplyCache(reply_cache_file()) as cache:
            ask = partial(CachedClient(self._client, cache).answer, progress=progress)
            first = [situation.prompt(self.config.seed) for situation in situations]
            replies = ask(first)
            found = [self._read(*item) for item in zip(situations, replies, strict=True)]
            places = [place for place, item in enumerate(found) if item.turn is None]
            again = [
                situations[place].prompt(self.config.seed, (first[place], replies[place], found[place].problems[0]))
                for place in places
            ]
            for place, reply in zip(places, ask(again) if again else (), strict=True):
                found[place] = found[place].then(self._read(situations[place], reply))
        return found

    def _read(self, situation: Situation, reply: Reply) -> _UserReply:
        problem = situation.problem(reply.text) if reply.text is not None else reply.reason or "no reply"
        calls = calls_of(reply, getattr(self.config.model, "price", None), is_used=not problem)
        turn = None if problem or reply.text is None else situation.read(reply.text)
        return _UserReply(turn, (problem,) if problem else (), tuple(call.json_values for call in calls))


@dataclass(frozen=True, slots=True)
class _UserReply:
    """A user's reply, or two where the first could not be used."""

    turn: UserTurn | None
    """None where no reply could be used."""
    problems: tuple[str, ...]
    """What was wrong with each reply that could not."""
    calls: tuple[dict[str, Any], ...]

    def then(self, later: _UserReply) -> _UserReply:
        """Return both replies as one."""
        return _UserReply(later.turn, self.problems + later.problems, self.calls + later.calls)


@dataclass(slots=True)
class _Need:
    """One need of a conversation, and what became of it."""

    task: Task
    met: bool | None = None
    """None while it is not decided."""
    opening: tuple[Message, ...] = ()
    """The conversation up to the first message about it, this one included."""
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    """The user's messages about it, each with the answer and what the user made of it."""
    answers: list[GivenAnswer] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Conversation:
    """One user's conversation with the system."""

    name: str
    needs: list[_Need]
    persona: str
    config: UserConfig
    common: frozenset[str]
    end_of_thinking: str
    messages: list[ChatMessage]
    at: int = -1
    n_turns: int = 0
    n_given_up: int = 0
    end: str = ""
    reason: str = ""

    def step(self, *, met: bool) -> Step:
        """Return what the user does next where the need is met, and where it is not."""
        if self.at < 0:
            return Step(Next.ASK, 0)
        is_last = self.at + 1 == len(self.needs)
        if met and is_last:
            rest = all(need.met for need in self.needs[:-1])
            return Step(Next.END, why=SATISFIED if rest else FINISHED)
        if self.n_turns >= self.config.turns:
            return Step(Next.END, why=OUT_OF_TURNS)
        if not met and len(self.needs[self.at].exchanges) <= self.config.patience:
            return Step(Next.STAY, self.at)
        if not met and self.n_given_up + 1 >= max(1, self.config.patience):
            return Step(Next.END, why=OUT_OF_PATIENCE)
        return Step(Next.END, why=FINISHED) if is_last else Step(Next.ASK, self.at + 1)

    def situation(self) -> Situation:
        """Return what the user reacts to."""
        return Situation(
            needs=tuple(need.task for need in self.needs),
            at=self.at,
            messages=tuple(self.messages),
            persona=PERSONAS.get(self.persona, self.persona),
            when_met=self.step(met=True),
            when_unmet=self.step(met=False),
            common=self.common,
        )

    def take_turn(self, reply: _UserReply) -> None:
        """Go on by what the user said; a user that cannot be read breaks the conversation off."""
        turn = reply.turn
        self.needs[max(0, self.at)].calls += reply.calls
        if turn is None:
            self.end, self.reason = BROKEN, f"no message of the user could be used: {reply.problems[-1]}"
            return
        step = self.step(met=bool(turn.met))
        if self.at >= 0:
            self._judge(turn, step)
        if step.kind is Next.END:
            self.end = step.why
            return
        self.messages.append(ChatMessage("user", turn.message))
        self.n_turns, self.at = self.n_turns + 1, step.need
        need = self.needs[step.need]
        need.opening = need.opening or tuple(Message(Role(item.role), item.content) for item in self.messages)
        need.exchanges.append({"user": turn.message, **({"refused": list(reply.problems)} if reply.problems else {})})

    def _judge(self, turn: UserTurn, step: Step) -> None:
        """Note what the user makes of the last answer, and whether the need is decided by that."""
        need = self.needs[self.at]
        had_answers = sum(message.role == "assistant" for message in self.messages) > 1
        contradicts = turn.contradicts if had_answers else None
        need.exchanges[-1] |= {"met": turn.met, "wrong": turn.wrong, "contradicts": contradicts}
        if turn.met:
            need.met, self.n_given_up = True, 0
        elif step.kind is not Next.STAY:
            need.met, self.n_given_up = False, self.n_given_up + 1

    def request(self) -> dict[str, Any]:
        """Return what the system is asked; its id is no task's, so that nothing can be looked up by it."""
        messages = [{"role": message.role, "content": message.content} for message in self.messages]
        return {"id": f"{self.name}/user-{self.n_turns}", "messages": messages}

    def take_answer(self, answer: GivenAnswer) -> None:
        """Go on by what the system answered; a failed request breaks the conversation off."""
        if answer.no_answer:
            self.end, self.reason = NO_ANSWER, answer.no_answer
            return
        need, text = self.needs[self.at], answer_text(answer.text, self.end_of_thinking).strip()
        need.exchanges[-1]["answer"] = text
        need.answers.append(answer)
        self.messages.append(ChatMessage("assistant", text))

    def given(self) -> dict[str, GivenAnswer]:
        """Return task id -> what was said to the need."""
        left = self.end in {OUT_OF_PATIENCE, OUT_OF_TURNS}
        for need in self.needs:
            if left and need.met is None:
                need.met = False
        return {need.task.task_id: self._given(need) for need in self.needs}

    def _given(self, need: _Need) -> GivenAnswer:
        about = {
            "met": need.met,
            "turns": len(need.exchanges),
            "exchanges": need.exchanges,
            "persona": self.persona,
            "end": self.end,
            "by": self.config.model.model,
            **({"calls": need.calls} if need.calls else {}),
        }
        calls = [call for answer in need.answers for call in answer.usage.get("calls", ())]
        given = partial(GivenAnswer, usage={"calls": calls} if calls else {}, need=about, messages=need.opening)
        if need.met is None:
            return given("", no_answer=f"the conversation broke off: {self.reason}")
        if not need.answers:
            return given("", no_answer=f"not asked: the user had left ({self.end})")
        passages: dict[tuple[str, str], Passage] = {}
        for passage in (item for answer in need.answers for item in answer.passages or ()):
            passages.setdefault((passage.passage_id, passage.text), passage)
        return given("\n\n".join(item["answer"] for item in need.exchanges), tuple(passages.values()))


def converse(system: System, user: SimulatedUser) -> Answering:
    """Return what has a simulated user talk with a system about every conversation of a benchmark."""

    def answering(benchmark: Benchmark, config: EvaluationConfig, file: Path) -> Mapping[str, GivenAnswer]:
        conversations = _conversations(benchmark, config, user.config)
        file.parent.mkdir(parents=True, exist_ok=True)
        cache = unfinished_file(file)
        if conversations_file(file).exists() and not cache.exists():
            conversations_file(file).replace(cache)  # what the system said before is not asked again
        with progress_bars() as progress:
            _hold(conversations, system, user, cache, in_rounds(progress))
        _report(conversations, config.min_judge_coverage)
        return {name: answer for item in conversations for name, answer in item.given().items()}

    return answering


def planned_messages(benchmark: Benchmark, config: EvaluationConfig, user: UserConfig) -> list[tuple[int, int, int]]:
    """Return needs of each conversation, and how many messages the user sends in it at least and at most."""
    planned = []
    for item in _conversations(benchmark, config, user):
        n, each = len(item.needs), 1 + user.patience
        in_vain = min(n, max(1, user.patience)) * each
        planned.append((n, min(user.turns, n, in_vain), min(user.turns, n * each)))
    return planned


def _hold(
    conversations: Sequence[_Conversation],
    system: System,
    user: SimulatedUser,
    cache: Path,
    progress: Progress,
) -> None:
    """Hold all conversations to their ends, one message and one answer of each at a time."""
    while going := [item for item in conversations if not item.end]:
        turns = user.turns([item.situation() for item in going], progress)
        for item, turn in zip(going, turns, strict=True):
            item.take_turn(turn)
        asking = [item for item in going if not item.end]
        answers = system.ask([item.request() for item in asking], cache=cache, progress=progress) if asking else []
        for item, answer in zip(asking, answers, strict=True):
            item.take_answer(answer)


def _conversations(benchmark: Benchmark, config: EvaluationConfig, user: UserConfig) -> list[_Conversation]:
    """Return the conversations before their first message: after the benchmark's own turns before the first task."""
    tasks: dict[str, list[Task]] = {}
    for task in benchmark.tasks:
        is_counted = config.conversational or task.answerability is not Answerability.CONVERSATIONAL
        if is_counted and task.target.strip() and benchmark.belongs(task, Setting.FULL_RAG):
            tasks.setdefault(task.conversation_id, []).append(task)
    if not tasks:
        raise ConfigurationError(
            f"user: {benchmark.label} has no reference answers that a user could know. Next step: name a benchmark "
            "that has, such as mtrag, mtrag_un, multihop_rag or custom"
        )
    common = common_words(tasks.values())
    return [
        _Conversation(
            name,
            [_Need(task) for task in sorted(chosen, key=lambda task: task.turn)],
            random.Random(f"{user.seed} {name}").choice(user.personas),
            user,
            common,
            config.end_of_thinking,
            [ChatMessage(item.role.value, item.text) for item in min(chosen, key=lambda t: t.turn).messages[:-1]],
        )
        for name, chosen in tasks.items()
    ]


def _report(conversations: Sequence[_Conversation], min_coverage: float) -> None:
    """Remember the conversations that broke off as a problem: by the system any, by the user too many."""
    n = len(conversations)
    unanswered = Counter(item.reason for item in conversations if item.end == NO_ANSWER)
    unread = Counter(item.reason for item in conversations if item.end == BROKEN)
    for reasons in (unanswered, unread if unread.total() > (1 - min_coverage) * n else Counter[str]()):
        if reasons:
            listed = "; ".join(f"{reason} ({count} times)" for reason, count in reasons.most_common(_MAX_REASONS))
            record_failure(
                f"{reasons.total()} of {n} conversations broke off: {listed}. Next step: run the same command again: "
                "only what has no reply is asked"
            )


# What a simulated user is shown, what it may say, and how its replies are read.
#
# The user knows the needs of a conversation with their reference answers, judges each answer by them, and asks on in
# its own words. A reply that is not in the form, or whose message gives an answer away, leaves the subject or repeats
# an earlier one, is none: whoever asks may ask once more, and never writes a message in the user's place.

TEMPLATE = shipped_template("users/turn")

_FORM = '{"id": "CODE", "met": LABEL, "wrong": LABEL, "contradicts": LABEL, "message": TEXT}'
_OPENING_FORM = '{"id": "CODE", "message": TEXT}'
_SPEAKERS = {"user": "You", "assistant": "Assistant"}
# Characters of Chinese and Japanese count as words.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_SHORTEST = 4
# By the human rewrites of MTRAG's 777 questions and the first quarters of their reference answers (docs/users.md).
_MOST_GIVEN_AWAY = 0.1
_COMMON_SHARE = 0.2


class Next(str, Enum):
    """What the user does next."""

    ASK = "ask"
    """Ask about another need."""
    STAY = "stay"
    """Follow up or correct."""
    END = "end"
    """Say nothing more."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the user does next, and about what."""

    kind: Next
    need: int = -1
    """Place of the need that the message is about; of no message -1."""
    why: str = ""

    @property
    def words(self) -> str:
        """The step as the prompt has it."""
        if self.kind is Next.ASK:
            return f"ask about need {self.need + 1}, in your own words"
        if self.kind is Next.STAY:
            return (
                f"stay with need {self.need + 1}: say what is still missing, or what you doubt, and never what the "
                "answer should be"
            )
        return "leave the message empty, as you end the conversation"


class RefusedMessageError(UnparsableReplyError):
    """A reply in the right form whose message no user should send."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user made of the last answer, and what it says."""

    message: str
    """Empty where the conversation ends."""
    met: bool | None = None
    """Whether the need is met by now; None before any answer, as are the other two."""
    wrong: bool | None = None
    contradicts: bool | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What a user reacts to."""

    needs: tuple[Task, ...]
    at: int
    """Place of the need that was asked about last; -1 before the first."""
    messages: tuple[ChatMessage, ...]
    persona: str
    """How the user writes."""
    when_met: Step
    when_unmet: Step
    common: frozenset[str] = frozenset()
    """Words that say nothing of a subject (see `common_words`)."""

    def prompt(self, seed: int, earlier: tuple[Prompt, Reply, str] | None = None) -> Prompt:
        """Return what the user is asked; the second time with what was wrong with the first reply."""
        text, form = self._text(earlier[2] if earlier else "")
        return Prompt(
            Prompt.of(text).messages,
            (f"seed {seed}",),
            kind="user",
            is_readable=lambda reply: not self.problem(reply),
            schema=schema_of(form),
            earlier=((earlier[0], earlier[1]),) if earlier else (),
        )

    def problem(self, reply: str) -> str:
        """Return why a reply cannot be used; empty where it can."""
        try:
            self.read(reply)
        except UnparsableReplyError as error:
            return str(error)
        return ""

    def _text(self, problem: str) -> tuple[str, str]:
        form = (_OPENING_FORM if self.at < 0 else _FORM).replace("CODE", self._code)
        text = TEMPLATE.render(
            code=self._code,
            persona=self.persona,
            needs=[{"question": task.question, "target": task.target} for task in self.needs],
            conversation=[{"speaker": _SPEAKERS[item.role], "text": item.content} for item in self.messages],
            at=self.at + 1,
            when_met=self.when_met.words,
            when_unmet=self.when_unmet.words,
            problem=problem,
            form=form,
        )
        return text, form

    @property
    def _code(self) -> str:
        shown = [text for task in self.needs for text in (task.question, task.target)]
        return code_of(*shown, *(message.content for message in self.messages))

    def read(self, reply: str) -> UserTurn:
        """Return the user's turn; RefusedMessageError for a reply in form whose message cannot be sent."""
        found = read_coded_object(reply, self._code)
        labels = {} if self.at < 0 else {name: _label(found, name) for name in ("met", "wrong", "contradicts")}
        step = self.when_unmet if labels.get("met") is False else self.when_met
        if step.kind is Next.END:
            return UserTurn("", **labels)
        message = found.get("message")
        if not isinstance(message, str) or not message.strip():
            raise UnparsableReplyError('"message" is no text, or empty')
        self._check(message, step)
        return UserTurn(message.strip(), **labels)

    def _check(self, message: str, step: Step) -> None:
        """Refuse a message that says what it must not, leaves the needs, or was sent before."""
        spoken = [item.content for item in self.messages]
        need, words = self.needs[step.need], words_of(message)
        if gives_away(message, need, frozenset(self.common | words_of(*spoken))):
            raise RefusedMessageError("the message gives the expected answer away")
        texts = (text for task in self.needs for text in (task.question, task.target))
        goal = words_of(*texts, *spoken) - self.common
        if step.kind is Next.ASK and goal and not goal & words:
            raise RefusedMessageError("the message has no word of what it should ask about")
        own = [item.content for item in self.messages if item.role == "user"]
        if _bare(message) in map(_bare, own):
            raise RefusedMessageError("the message repeats an earlier one word for word")


def gives_away(message: str, need: Task, known: frozenset[str]) -> bool:
    """Return whether a message holds more of a reference answer than the question and what is known do.

    More: one in ten of the other words of the answer, and two at least, of which a number counts as two; or all of
    them. There is nothing to give away where the answer is that nothing is known.
    """
    if need.answerability is Answerability.UNANSWERABLE:
        return False
    hidden = words_of(need.target) - words_of(need.question) - known
    shared = hidden & words_of(message)
    weight = sum(2 if any(sign.isdigit() for sign in word) else 1 for word in shared)
    return bool(shared) and (shared == hidden or (weight > 1 and len(shared) > _MOST_GIVEN_AWAY * len(hidden)))


def _label(found: dict[str, object], name: str) -> bool:
    word = str(found.get(name)).strip().lower()
    if word not in YES_NO:
        raise UnparsableReplyError(f'"{name}" is neither yes nor no')
    return word == "yes"


def _bare(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def words_of(*texts: str) -> frozenset[str]:
    """Return the words of texts that can say something of their subject: numbers, and words that are not short."""
    found = (word for text in texts for word in _bare(text))
    return frozenset(word for word in found if len(word) >= _SHORTEST or word.isdigit() or not word.isascii())


def common_words(conversations: Iterable[Sequence[Task]]) -> frozenset[str]:
    """Return the words that stand in more than one conversation of five: they say nothing of any subject."""
    sets = [words_of(*(text for task in tasks for text in (task.question, task.target))) for tasks in conversations]
    counts = Counter(word for words in sets for word in words)
    return frozenset(word for word, n in counts.items() if n > max(1, _COMMON_SHARE * len(sets)))
