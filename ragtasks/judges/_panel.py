"""One judging of many responses: judges, a reply cache on disk, and the rubrics of an evaluation."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.clients import (
    CachedClient,
    CallUsage,
    Client,
    Endpoint,
    OpenAIClient,
    Outcome,
    Price,
    Prompt,
    Reply,
    ReplyCache,
    Secrets,
    Usage,
    calls_of,
    credentials_for,
    usage_of,
)
from ragtasks.errors import ConfigurationError, JudgeError, RagtasksError
from ragtasks.files import canonical_hash
from ragtasks.judges._parsers import UnparsableReplyError
from ragtasks.judges._question import Finding, Question, Rubric
from ragtasks.judges._verdicts import Verdict, VerdictOutcome, Verdicts
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Response


def judge_responses(
    responses: Sequence[Response],
    judges: Sequence[Endpoint | Client],
    *,
    secrets: Secrets,
    cache_file: Path,
    rubrics: Sequence[Rubric],
    progress: Progress = no_progress,
    judging: str = "",
) -> Verdicts:
    """Return the verdicts of all judges on all responses; what is in the cache is not asked again.

    `judging` tells this judging of the same responses from another one: each has replies of its own.
    """
    with ReplyCache(cache_file) as cache:
        ready = [_client(item, secrets) if isinstance(item, Endpoint) else item for item in judges]
        clients = [CachedClient(client, cache) for client in ready]
        prices = {item.model: item.price for item in judges if isinstance(item, Endpoint) and item.price}
        return judge(responses, rubrics, clients, prices=prices, progress=progress, judging=judging)


def _client(endpoint: Endpoint, secrets: Secrets) -> Client:
    return OpenAIClient(endpoint, credentials_for(endpoint, secrets))


# Asks several judges about many responses at once, and keeps what each of them said.
# Every judge works in a thread of its own, since a client answers a list at a time. It gets all open questions of
# all rubrics together, then those that follow from the replies (second steps, and second attempts where a reply
# held no verdict), until none is open. A judge that is lost on the way loses its own verdicts only.

_OUTCOMES = {
    Outcome.REFUSED: VerdictOutcome.REFUSED,
    Outcome.FILTERED: VerdictOutcome.FILTERED,
    Outcome.TRUNCATED: VerdictOutcome.TRUNCATED,
    Outcome.EMPTY: VerdictOutcome.EMPTY,
    Outcome.MALFORMED: VerdictOutcome.MALFORMED,
    Outcome.FAILED: VerdictOutcome.FAILED,
}
# Other words may help here. A refusal and a filter mind the content, which stays; transport was tried again already.
_WORTH_ASKING_AGAIN = frozenset(
    {VerdictOutcome.UNPARSABLE, VerdictOutcome.TRUNCATED, VerdictOutcome.EMPTY, VerdictOutcome.THINKING_ONLY}
)

_ALIKE = 200  # characters: prompts with another beginning differ in the first line
_LONGER = 4  # how many times as long a reply may be whose first attempt was cut off


def judge(
    responses: Sequence[Response],
    rubrics: Sequence[Rubric],
    clients: Sequence[Client],
    *,
    prices: Mapping[str, Price] | None = None,
    progress: Progress = no_progress,
    max_attempts: int = 2,
    judging: str = "",
) -> Verdicts:
    """Return what every client says of every response under every rubric.

    Identical prompts are asked once where the clients are `CachedClient`s, which also keeps each reply the moment it
    comes: after any interruption the same call asks only what is not answered.
    """
    _check_names("rubrics", [rubric.name for rubric in rubrics])
    _check_names("judges", [client.name for client in clients])
    opened = [(index, rubric, rubric.open(response)) for index, response in enumerate(responses) for rubric in rubrics]
    stop = threading.Event()
    bar = PanelProgress(progress)
    judge_runs = [
        _JudgeRun(
            client,
            [_PendingQuestion(index, rubric.name, step, judging) for index, rubric, step in opened],
            max_attempts,
            stop,
            bar.judge_progress(client.name, (prices or {}).get(client.name)),
        )
        for client in clients
    ]
    _run_all(judge_runs, stop)
    bar.close()
    if judge_runs and all(judge_run.lost for judge_run in judge_runs):
        raise _all_lost(judge_runs)
    rows = {
        (pending.index, pending.rubric, judge_run.client.name): pending.verdict(responses[pending.index], judge_run)
        for judge_run in judge_runs
        for pending in judge_run.pending_questions
    }
    names = [client.name for client in clients]
    usage = {judge_run.client.name: judge_run.judge_progress.usage for judge_run in judge_runs}
    return Verdicts(responses, [rubric.name for rubric in rubrics], names, rows, usage)


def _check_names(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{what}: named twice: {', '.join(twice)}. Next step: leave one out")


def _all_lost(judge_runs: Sequence[_JudgeRun]) -> JudgeError:
    return JudgeError(
        "judges",
        where=", ".join(judge_run.client.name for judge_run in judge_runs),
        expected="at least one judge that answers to the end",
        found="; ".join(f"{judge_run.client.name}: {judge_run.lost}" for judge_run in judge_runs),
        next_step="fix the judges' errors, then ask again: replies are cached. Saved answers are scored without their "
        "model by `ragtasks score RESULTS --output FOLDER`",
    )


@dataclass(slots=True)
class _PendingQuestion:
    """One response, one rubric, one judge: the step it has come to, and what it has cost."""

    index: int
    rubric: str
    step: Question | Finding
    judging: str = ""
    attempts: int = 0
    prompt_hash: str = ""
    replies: list[str] = field(default_factory=list)
    earlier: tuple[tuple[Prompt, Reply], ...] = ()
    is_cut: bool = False
    served_model: str = ""
    calls: list[CallUsage] = field(default_factory=list)

    def text(self) -> str:
        """Return the text of the step, which must be a question."""
        assert isinstance(self.step, Question)
        return self.step.text

    def prompt(self) -> Prompt:
        """Return the prompt of the step, which must be a question."""
        assert isinstance(self.step, Question)
        asked = self.step.again() if self.attempts else self.step
        # Attempts beyond the second repeat its words, so only their number tells them apart.
        prompt = Prompt(
            Prompt.of(asked.text).messages,
            (*filter(None, [self.judging]), *([f"attempt {self.attempts + 1}"] if self.attempts else [])),
            kind=self.rubric,
            is_readable=asked.is_readable,
            schema=asked.schema,
            longer=_LONGER if self.is_cut else 1,
            earlier=self.earlier,
        )
        self.prompt_hash = self.prompt_hash or canonical_hash(prompt.payload())
        return prompt

    def take(self, prompt: Prompt, reply: Reply, max_attempts: int, price: Price | None) -> None:
        """Go on from the reply to a prompt: to the next question, the same one again, or a finding."""
        assert isinstance(self.step, Question)
        self.served_model = reply.served_model
        self.attempts += 1
        self.replies.append(reply.raw if reply.text is None else reply.text)
        following = _follow(self.step, reply)
        is_used = isinstance(following, Question) or following.outcome is not VerdictOutcome.UNPARSABLE
        self.calls += calls_of(reply, price, is_used=is_used)
        if isinstance(following, Question):
            self.step, self.attempts, self.earlier, self.is_cut = following, 0, (), False
        elif following.outcome not in _WORTH_ASKING_AGAIN or self.attempts >= max_attempts:
            self.step = following
        else:
            self.is_cut = following.outcome in {VerdictOutcome.TRUNCATED, VerdictOutcome.THINKING_ONLY}
            self.earlier = (*self.earlier, (prompt, reply))

    def verdict(self, response: Response, judge_run: _JudgeRun) -> Verdict:
        """Return the record of a finished pending question, or of one whose judge was lost."""
        lost = Finding(None, None, VerdictOutcome.JUDGE_LOST, judge_run.lost)
        finding = lost if isinstance(self.step, Question) else self.step
        return Verdict(
            task_id=response.task.task_id,
            rubric=self.rubric,
            judge=judge_run.client.name,
            outcome=finding.outcome,
            label=finding.label,
            value=finding.value,
            reason=finding.reason,
            replies=tuple(self.replies),
            prompt_hash=self.prompt_hash,
            attempts=self.attempts,
            prompt_tokens=sum(call.input_tokens or 0 for call in self.calls),
            completion_tokens=sum(call.output_tokens or 0 for call in self.calls),
            calls=tuple(self.calls),
            served_model=self.served_model,
        )


def _follow(question: Question, reply: Reply) -> Question | Finding:
    """Return what follows from a reply; a finding without a value says why."""
    if reply.text is None:
        outcome = _OUTCOMES[reply.outcome]
        if outcome is VerdictOutcome.EMPTY and reply.thinking:
            outcome = VerdictOutcome.THINKING_ONLY
        return Finding(None, None, outcome, reply.reason)
    try:
        return question.read(reply.text)
    except UnparsableReplyError as error:
        return Finding(None, None, VerdictOutcome.UNPARSABLE, str(error))


class _Stopped(Exception):  # noqa: N818 (no error: the caller wants to end)
    """The call was interrupted."""


class _JudgeRun:
    """One judge with its questions, and why it was lost, if it was."""

    def __init__(
        self,
        client: Client,
        pending_questions: list[_PendingQuestion],
        max_attempts: int,
        stop: threading.Event,
        judge_progress: JudgeProgress,
    ) -> None:
        self.client, self.pending_questions, self.lost = client, pending_questions, ""
        self.bug: BaseException | None = None
        self.judge_progress = judge_progress
        self._max_attempts, self._stop = max_attempts, stop

    def run(self) -> None:
        """Ask until no question is open or the judge is lost; never raises."""
        try:
            while waiting := [pending for pending in self.pending_questions if isinstance(pending.step, Question)]:
                # Neighbours in this order begin alike: a server with a prefix cache reads their beginning once.
                self._ask(sorted(waiting, key=_PendingQuestion.text))
        except RagtasksError as error:
            # Also a cache that cannot be written: going on would pay for replies that nobody keeps.
            self.lost = str(error)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 (a bug, or an order to end: raised again by who waits)
            self.bug = error
            self._stop.set()

    def _ask(self, waiting: list[_PendingQuestion]) -> None:
        """Ask one question of each pending question; replies that came before a judge was lost count too."""
        collected = _Collected(self._stop, self.judge_progress, waiting, self._max_attempts)
        self.judge_progress.begin(len(waiting))
        replies = self.client.answer(list(collected.prompts), self.judge_progress.follow, collected)
        for index, reply in enumerate(replies):
            if index not in collected.recorded:  # of a client that keeps no journal
                collected.take(index, reply)


class _Collected:
    """The replies of one call as they come; it ends the call where everything is to end."""

    def __init__(
        self,
        stop: threading.Event,
        judge_progress: JudgeProgress,
        waiting: Sequence[_PendingQuestion],
        max_attempts: int,
    ) -> None:
        self.recorded: set[int] = set()
        self.prompts = [pending.prompt() for pending in waiting]
        self._waiting, self._max_attempts = waiting, max_attempts
        self._stop, self._judge_progress = stop, judge_progress

    def recall(self, index: int) -> Reply | None:
        """Return nothing: what is known is the cache's business."""
        if self._stop.is_set():
            raise _Stopped
        return None

    def record(self, index: int, reply: Reply) -> None:
        """Take a reply."""
        self.recorded.add(index)
        self.take(index, reply)
        self._judge_progress.add(reply)
        if self._stop.is_set():
            raise _Stopped

    def take(self, index: int, reply: Reply) -> None:
        """Go on from a reply."""
        price = self._judge_progress.price
        self._waiting[index].take(self.prompts[index], reply, self._max_attempts, price)

    def following(self, index: int) -> Prompt | None:
        """Return the next question where it begins as the one before: a server has that beginning at hand now."""
        if not isinstance(self._waiting[index].step, Question):
            return None
        before, prompt = self.prompts[index], self._waiting[index].prompt()
        if prompt.messages[0].content[:_ALIKE] != before.messages[0].content[:_ALIKE]:
            return None
        self.prompts[index] = prompt
        self._judge_progress.total += 1
        return prompt


def _run_all(judge_runs: Sequence[_JudgeRun], stop: threading.Event) -> None:
    """Run each in a thread; after an interruption they end at their next reply, and the process may end before."""
    threads = [
        threading.Thread(target=judge_run.run, name=judge_run.client.name, daemon=True) for judge_run in judge_runs
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
    for judge_run in judge_runs:
        if judge_run.bug is not None:
            raise judge_run.bug


# The progress of several judges as one line: every reply counts, whichever judge gave it, with sums over all of
# them.
# What a client says of its own progress is not used, apart from what it waits for: it knows neither the other
# judges nor its earlier calls.

_LONGEST_NAMES = 40


class PanelProgress:
    """Tells a `Progress` of several judges."""

    def __init__(self, progress: Progress) -> None:
        """Begin; the rate counts from now."""
        self.lock = threading.Lock()
        self._progress, self._begin = progress, time.monotonic()
        self._judges: list[JudgeProgress] = []

    def judge_progress(self, name: str, price: Price | None) -> JudgeProgress:
        """Return the share of one more judge."""
        self._judges.append(JudgeProgress(self, name, price, Usage(cost=None if price is None else 0.0)))
        return self._judges[-1]

    def close(self) -> None:
        """Tell the sums, where there was anything to do."""
        with self.lock:
            if any(judge.total for judge in self._judges):
                self.show(whole=True)

    def show(self, *, whole: bool = False) -> None:
        """Tell of all judges, with the lock held."""
        note = sum((judge.usage for judge in self._judges), Usage()).note(time.monotonic() - self._begin, whole=whole)
        waits = [f"{judge.name}: {judge.held_up}" for judge in self._judges if judge.held_up and not whole]
        n_done, total = sum(judge.n_done for judge in self._judges), sum(judge.total for judge in self._judges)
        self._progress("\t".join([self._name(), note, *waits]), n_done, total)

    def _name(self) -> str:
        names = ", ".join(judge.name for judge in self._judges)
        is_short = len(names) <= _LONGEST_NAMES or len(self._judges) == 1
        return names if is_short else f"{len(self._judges)} judges"


@dataclass(slots=True)
class JudgeProgress:
    """How far one judge is, and what that has cost."""

    bar: PanelProgress
    name: str
    price: Price | None
    usage: Usage
    n_done: int = 0
    total: int = 0
    held_up: str = ""

    def begin(self, n_prompts: int) -> None:
        """Tell of a new call of so many prompts before its first reply, which may be long in coming."""
        with self.bar.lock:
            self.total = self.n_done + n_prompts
            self.bar.show()

    def follow(self, what: str, _done: int, _total: int | None) -> None:
        """Take from a client's own progress what it waits for, empty where it waits for nothing."""
        why = "".join(what.split("\t")[2:])
        with self.bar.lock:
            if why != self.held_up:
                self.held_up = why
                self.bar.show()

    def add(self, reply: Reply) -> None:
        """Count a reply, and tell of all judges."""
        with self.bar.lock:
            self.n_done += 1
            self.usage += usage_of(reply, self.price)
            self.bar.show()
