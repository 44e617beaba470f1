"""Asks several judges about many responses at once, and keeps what each of them said.

Every judge works in a thread of its own, since a client answers a list at a time. It gets all open questions of all
rubrics together, then those that follow from the replies (second steps, and second attempts where a reply held no
verdict), until none is open. A judge that is lost on the way loses its own verdicts only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragtasks.clients import Client, Outcome, Price, Progress, Prompt, Reply, no_progress
from ragtasks.errors import ConfigurationError, JudgeError, RagtasksError, clear_error
from ragtasks.files import canonical_hash
from ragtasks.judges._panel_progress import Lane, PanelProgress
from ragtasks.judges._parsers import UnparsableReplyError
from ragtasks.judges._question import Finding, Question, Rubric
from ragtasks.judges._verdicts import Verdict, VerdictOutcome, Verdicts
from ragtasks.records import Response

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


def judge(
    responses: Sequence[Response],
    rubrics: Sequence[Rubric],
    clients: Sequence[Client],
    *,
    prices: Mapping[str, Price] | None = None,
    progress: Progress = no_progress,
    max_attempts: int = 2,
) -> Verdicts:
    """Return what every client says of every response under every rubric.

    Identical prompts are asked once where the clients are `CachedClient`s, which also keeps each reply the moment it
    comes: after any interruption the same call asks only what is not answered.

    Args:
        responses: what models answered.
        rubrics: what is asked, under different names.
        clients: the judges, under different names.
        prices: name of a judge -> what its tokens cost; the others cost nothing that is known.
        progress: told of all judges together, with sums as `Usage.note` writes them after a tab; the total grows as
            replies lead to further questions.
        max_attempts: how often a question is asked where the reply holds no verdict, at least 1.

    Raises:
        JudgeError: no judge could be had to the end; what they said before that is in their caches.
        ConfigurationError: two rubrics or two clients of one name, or a template that cannot be filled in.
    """
    _check_names("rubrics", [rubric.name for rubric in rubrics])
    _check_names("judges", [client.name for client in clients])
    opened = [(index, rubric, rubric.open(response)) for index, response in enumerate(responses) for rubric in rubrics]
    stop = threading.Event()
    bar = PanelProgress(progress)
    seats = [
        _Seat(
            client,
            [_Inquiry(index, rubric.name, step) for index, rubric, step in opened],
            max_attempts,
            stop,
            bar.lane(client.name, (prices or {}).get(client.name)),
        )
        for client in clients
    ]
    _run_all(seats, stop)
    bar.close()
    if seats and all(seat.lost for seat in seats):
        raise JudgeError(_all_lost(seats))
    rows = {
        (inquiry.index, inquiry.rubric, seat.client.name): inquiry.verdict(responses[inquiry.index], seat)
        for seat in seats
        for inquiry in seat.inquiries
    }
    names = [client.name for client in clients]
    usage = {seat.client.name: seat.lane.usage for seat in seats}
    return Verdicts(responses, [rubric.name for rubric in rubrics], names, rows, usage)


def _check_names(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{what}: named twice: {', '.join(twice)}. Next step: leave one out")


def _all_lost(seats: Sequence[_Seat]) -> str:
    return clear_error(
        "judges",
        where=", ".join(seat.client.name for seat in seats),
        expected="at least one judge that can be had to the end",
        found="; ".join(f"{seat.client.name}: {seat.lost}" for seat in seats),
        next_step="fix what the judges say, then ask again: replies are kept. Saved answers are scored without their "
        "model by `ragtasks judge RESULTS --output-path FOLDER`",
    )


@dataclass(slots=True)
class _Inquiry:
    """One response, one rubric, one judge: the step it has come to, and what it has cost."""

    index: int
    rubric: str
    step: Question | Finding
    attempts: int = 0
    prompt_hash: str = ""
    replies: list[str] = field(default_factory=list)
    earlier: tuple[tuple[Prompt, Reply], ...] = ()
    served_model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0

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
            (f"attempt {self.attempts + 1}",) if self.attempts else (),
            kind=self.rubric,
            is_readable=asked.is_readable,
            earlier=self.earlier,
        )
        self.prompt_hash = self.prompt_hash or canonical_hash(prompt.payload())
        return prompt

    def take(self, prompt: Prompt, reply: Reply, max_attempts: int) -> None:
        """Go on from the reply to a prompt: to the next question, the same one again, or a finding."""
        assert isinstance(self.step, Question)
        self.served_model = reply.served_model
        self.attempts += 1
        self.replies.append(reply.raw if reply.text is None else reply.text)
        self.prompt_tokens += reply.prompt_tokens or 0
        self.completion_tokens += reply.completion_tokens or 0
        following = _follow(self.step, reply)
        if isinstance(following, Question):
            self.step, self.attempts, self.earlier = following, 0, ()
        elif following.outcome not in _WORTH_ASKING_AGAIN or self.attempts >= max_attempts:
            self.step = following
        else:
            self.earlier = (*self.earlier, (prompt, reply))

    def verdict(self, response: Response, seat: _Seat) -> Verdict:
        """Return the record of a finished inquiry, or of one whose judge was lost."""
        lost = Finding(None, None, VerdictOutcome.JUDGE_LOST, seat.lost)
        finding = lost if isinstance(self.step, Question) else self.step
        return Verdict(
            task_id=response.task.task_id,
            rubric=self.rubric,
            judge=seat.client.name,
            outcome=finding.outcome,
            label=finding.label,
            value=finding.value,
            reason=finding.reason,
            replies=tuple(self.replies),
            prompt_hash=self.prompt_hash,
            attempts=self.attempts,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
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


class _Seat:
    """One judge with its questions, and why it was lost, if it was."""

    def __init__(
        self, client: Client, inquiries: list[_Inquiry], max_attempts: int, stop: threading.Event, lane: Lane
    ) -> None:
        self.client, self.inquiries, self.lost = client, inquiries, ""
        self.bug: BaseException | None = None
        self.lane = lane
        self._max_attempts, self._stop = max_attempts, stop

    def run(self) -> None:
        """Ask until no question is open or the judge is lost; never raises."""
        try:
            while waiting := [inquiry for inquiry in self.inquiries if isinstance(inquiry.step, Question)]:
                # Neighbours in this order begin alike: a server with a prefix cache reads their beginning once.
                self._ask(sorted(waiting, key=_Inquiry.text))
        except RagtasksError as error:
            # Also a cache that cannot be written: going on would pay for replies that nobody keeps.
            self.lost = str(error)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 (a bug, or an order to end: raised again by who waits)
            self.bug = error
            self._stop.set()

    def _ask(self, waiting: list[_Inquiry]) -> None:
        """Ask one question of each inquiry; replies that came before a judge was lost count too."""
        heard = _Heard(self._stop, self.lane)
        self.lane.begin(len(waiting))
        prompts = [inquiry.prompt() for inquiry in waiting]
        try:
            replies = self.client.answer(prompts, self.lane.follow, heard)
            heard.replies = dict(enumerate(replies))
        finally:
            for index, reply in heard.replies.items():
                waiting[index].take(prompts[index], reply, self._max_attempts)


class _Heard:
    """The replies of one call as they come; it ends the call where everything is to end."""

    def __init__(self, stop: threading.Event, lane: Lane) -> None:
        self.replies: dict[int, Reply] = {}
        self._stop, self._lane = stop, lane

    def recall(self, index: int) -> Reply | None:
        """Return nothing: what is known is the cache's business."""
        if self._stop.is_set():
            raise _Stopped
        return None

    def record(self, index: int, reply: Reply) -> None:
        """Keep a reply."""
        self.replies[index] = reply
        self._lane.add(reply)
        if self._stop.is_set():
            raise _Stopped


def _run_all(seats: Sequence[_Seat], stop: threading.Event) -> None:
    """Run every seat in a thread; after an interruption they end at their next reply, and the process may end before.

    Raises:
        Exception: a bug in a client or a parser, once all have ended.
    """
    threads = [threading.Thread(target=seat.run, name=seat.client.name, daemon=True) for seat in seats]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
    for seat in seats:
        if seat.bug is not None:
            raise seat.bug


__all__ = ["judge"]
