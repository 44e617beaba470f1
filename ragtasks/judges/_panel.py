"""Judging of many responses by several judges, with a reply cache on disk."""

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
    EndpointError,
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
    """Return the verdicts of all judges on all responses; cached replies are not requested again.

    `judging` names a repeated judging of the same responses: its replies are requested and cached separately.
    """
    with ReplyCache(cache_file) as cache:
        ready = [
            OpenAIClient(member, credentials_for(member, secrets)) if isinstance(member, Endpoint) else member
            for member in judges
        ]
        clients = [CachedClient(client, cache) for client in ready]
        prices = {member.name: member.price for member in ready if isinstance(member, OpenAIClient) and member.price}
        return judge(responses, rubrics, clients, prices=prices, progress=progress, judging=judging)


# Each judge works in its own thread, since a client answers a list at a time. The judge receives all open questions of
# all rubrics together, then the questions that follow from the replies: second steps, and second attempts after replies
# without a verdict. A judge that fails loses only its own verdicts.

# Another wording may help after these outcomes. Refusals and filters depend on the content, and transport errors were
# retried already.
_RETRIED_OUTCOMES = frozenset(
    {VerdictOutcome.UNPARSABLE, VerdictOutcome.TRUNCATED, VerdictOutcome.EMPTY, VerdictOutcome.THINKING_ONLY}
)

_PREFIX_CHARACTERS = 200  # characters: prompts with different beginnings differ in the first line
_RETRY_LENGTH_FACTOR = 4  # factor on the maximum reply length after a truncated first attempt


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
    """Return the verdicts of every client on every response under every rubric.

    `CachedClient`s send identical prompts once and store each reply as it arrives. After an interruption, the same call
    therefore sends only the missing prompts.

    Raises:
        ConfigurationError: two rubrics or two judges have the same name.
        JudgeError: every judge failed.
    """
    rubric_names, judge_names = [rubric.name for rubric in rubrics], [client.name for client in clients]
    for label, names in ("rubrics", rubric_names), ("judges", judge_names):
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"{label}: named twice: {', '.join(duplicates)}. Next step: leave one out")
    opened = [(index, rubric, rubric.open(response)) for index, response in enumerate(responses) for rubric in rubrics]
    panel = _Panel(progress)
    for client in clients:
        pending_questions = [_PendingQuestion(index, rubric.name, step, judging) for index, rubric, step in opened]
        price = (prices or {}).get(client.name)
        panel.runs.append(_JudgeRun(panel, client, pending_questions, max_attempts, price))
    panel.run()
    rows = {
        (pending.index, pending.rubric, run.client.name): pending.verdict(responses[pending.index], run)
        for run in panel.runs
        for pending in run.pending_questions
    }
    usage = {run.client.name: run.usage for run in panel.runs}
    return Verdicts(responses, rubric_names, judge_names, rows, usage)


@dataclass(slots=True)
class _PendingQuestion:
    """Progress and cost of one response under one rubric with one judge."""

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
        assert isinstance(self.step, Question)
        return self.step.text

    def prompt(self) -> Prompt:
        assert isinstance(self.step, Question)
        question = self.step.again() if self.attempts else self.step
        # Attempts after the second have the same text, so the cache key includes their number.
        prompt = Prompt(
            Prompt.of(question.text).messages,
            (*filter(None, [self.judging]), *([f"attempt {self.attempts + 1}"] if self.attempts else [])),
            kind=self.rubric,
            is_readable=question.is_readable,
            schema=question.schema,
            longer=_RETRY_LENGTH_FACTOR if self.is_cut else 1,
            earlier=self.earlier,
        )
        self.prompt_hash = self.prompt_hash or canonical_hash(prompt.payload())
        return prompt

    def advance(self, prompt: Prompt, reply: Reply, max_attempts: int, price: Price | None) -> None:
        """Advance by the reply to a prompt: to the next question, to another attempt, or to a finding."""
        assert isinstance(self.step, Question)
        self.served_model = reply.served_model
        self.attempts += 1
        self.replies.append(reply.raw if reply.text is None else reply.text)
        following = _step_after(self.step, reply)
        is_used = isinstance(following, Question) or following.outcome is not VerdictOutcome.UNPARSABLE
        self.calls += calls_of(reply, price, is_used=is_used)
        if isinstance(following, Question):
            self.step, self.attempts, self.earlier, self.is_cut = following, 0, (), False
        elif following.outcome not in _RETRIED_OUTCOMES or self.attempts >= max_attempts:
            self.step = following
        else:
            self.is_cut = following.outcome in {VerdictOutcome.TRUNCATED, VerdictOutcome.THINKING_ONLY}
            self.earlier = (*self.earlier, (prompt, reply))

    def verdict(self, response: Response, judge_run: _JudgeRun) -> Verdict:
        """Return the verdict of a finished question, or of a question whose judge failed."""
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


def _step_after(question: Question, reply: Reply) -> Question | Finding:
    """Return the question or finding that follows from a reply; a finding without a value has a reason."""
    if reply.text is None:
        outcome = VerdictOutcome(reply.outcome.value)
        if outcome is VerdictOutcome.EMPTY and reply.thinking:
            outcome = VerdictOutcome.THINKING_ONLY
        return Finding(None, None, outcome, reply.reason)
    try:
        return question.read(reply.text)
    except UnparsableReplyError as error:
        return Finding(None, None, VerdictOutcome.UNPARSABLE, str(error))


class _Stopped(Exception):  # noqa: N818 (no error: the caller interrupted the run)
    """The run was interrupted."""


class _JudgeRun:
    """State of one judge: its questions, their cost, and the reason if it failed; also the journal of its client."""

    def __init__(
        self,
        panel: _Panel,
        client: Client,
        pending_questions: list[_PendingQuestion],
        max_attempts: int,
        price: Price | None,
    ) -> None:
        self.client, self.pending_questions, self.lost = client, pending_questions, ""
        self.next_step = "correct this and run the same command: replies are kept"
        self.bug: BaseException | None = None
        self.usage = Usage(cost=None if price is None else 0.0)
        self.n_done = self.total = 0
        self.wait_reason = ""
        self._panel, self._max_attempts, self._price = panel, max_attempts, price
        self._waiting: list[_PendingQuestion] = []
        self._prompts: list[Prompt] = []
        self._recorded: set[int] = set()

    def run(self) -> None:
        """Send questions until none is open or the judge fails; never raises."""
        try:
            while waiting := [pending for pending in self.pending_questions if isinstance(pending.step, Question)]:
                # Neighbors in this order share a prefix, which a server with a prefix cache reads once.
                self._send_questions(sorted(waiting, key=_PendingQuestion.text))
        except EndpointError as error:
            n_kept = self.usage.n_asked + self.usage.n_cached - self.usage.n_failed
            self.lost, self.next_step = error.found, error.with_replies(n_kept).next_step
        except RagtasksError as error:
            # This includes a cache that cannot be written: continuing would pay for replies that are lost.
            self.lost = str(error)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 (a bug or an interrupt: `_Panel.run` raises it again)
            self.bug = error
            self._panel.stop.set()

    def _send_questions(self, waiting: list[_PendingQuestion]) -> None:
        """Send the next step of each open question; replies that arrive before the judge fails are used."""
        self._waiting, self._recorded = waiting, set()
        self._prompts = [pending.prompt() for pending in waiting]
        with self._panel.lock:  # the first reply may take long
            self.total = self.n_done + len(waiting)
            self._panel.show()
        replies = self.client.answer(list(self._prompts), self._show_wait, self)
        for index, reply in enumerate(replies):
            if index not in self._recorded:  # from a client without a journal
                self._advance(index, reply)

    def _show_wait(self, note: str, _done: int, _total: int | None) -> None:
        """Show the reason for waiting in the client's progress; its counts omit other judges and earlier calls."""
        reason = "".join(note.split("\t")[2:])
        with self._panel.lock:
            if reason != self.wait_reason:
                self.wait_reason = reason
                self._panel.show()

    def recall(self, index: int) -> Reply | None:
        """Return None: stored replies are in the cache."""
        if self._panel.stop.is_set():
            raise _Stopped
        return None

    def record(self, index: int, reply: Reply) -> None:
        self._recorded.add(index)
        self._advance(index, reply)
        with self._panel.lock:
            self.n_done += reply.outcome is not Outcome.FAILED
            self.usage += usage_of(reply, self._price)
            self._panel.show()
        if self._panel.stop.is_set():
            raise _Stopped

    def _advance(self, index: int, reply: Reply) -> None:
        self._waiting[index].advance(self._prompts[index], reply, self._max_attempts, self._price)

    def following(self, index: int) -> Prompt | None:
        """Return the next question if it begins like the last: the server still has that prefix cached."""
        if not isinstance(self._waiting[index].step, Question):
            return None
        before, prompt = self._prompts[index], self._waiting[index].prompt()
        if prompt.messages[0].content[:_PREFIX_CHARACTERS] != before.messages[0].content[:_PREFIX_CHARACTERS]:
            return None
        self._prompts[index] = prompt
        self.total += 1
        return prompt


_LONGEST_NAMES = 40


class _Panel:
    """Runs of all judges: one stop signal, and one progress line with totals."""

    def __init__(self, progress: Progress) -> None:
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.runs: list[_JudgeRun] = []
        self._progress, self._begin = progress, time.monotonic()

    def run(self) -> None:
        """Run each judge in a thread; after an interruption, threads end at their next reply or with the process."""
        threads = [threading.Thread(target=run.run, name=run.client.name, daemon=True) for run in self.runs]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.stop.set()
        for run in self.runs:
            if run.bug is not None:
                raise run.bug
        with self.lock:
            if any(run.total for run in self.runs):
                self.show(is_final=True)
        if self.runs and all(run.lost for run in self.runs):
            raise JudgeError(
                "judges",
                where=", ".join(run.client.name for run in self.runs),
                expected="at least one judge that answers every question",
                found="; ".join(f"{run.client.name}: {run.lost}" for run in self.runs),
                next_step="; ".join(dict.fromkeys(run.next_step for run in self.runs)),
            )

    def show(self, *, is_final: bool = False) -> None:
        """Report the progress of all judges; the caller must hold the lock."""
        names = ", ".join(run.client.name for run in self.runs)
        if len(names) > _LONGEST_NAMES and len(self.runs) > 1:
            names = f"{len(self.runs)} judges"
        note = sum((run.usage for run in self.runs), Usage()).note(time.monotonic() - self._begin, is_final=is_final)
        waits = [f"{run.client.name}: {run.wait_reason}" for run in self.runs if run.wait_reason and not is_final]
        n_done, total = sum(run.n_done for run in self.runs), sum(run.total for run in self.runs)
        self._progress("\t".join([names, note, *waits]), n_done, total)
