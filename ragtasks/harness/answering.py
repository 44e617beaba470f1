"""The model under test. Answers are saved as they arrive, and only missing ones are requested."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ragtasks.clients import EndpointError, Outcome, Prompt, Reply
from ragtasks.errors import ModelError
from ragtasks.harness.answer_log import AnswerLog, LoggedRequest
from ragtasks.harness.answers import NoAnswer, SystemAnswer, with_calls
from ragtasks.harness.served_model import ServedModel, served_model
from ragtasks.progress import progress_bars
from ragtasks.scoring import record_unanswered
from ragtasks.thoughts import END_OF_THOUGHT

_LOGGER = logging.getLogger(__name__)
_IN_USE: list[tuple[LM, ServedModel | None]] = []

Take = Callable[[Sequence[tuple[Instance, Any]]], Sequence[Instance]]
"""(requests, each with its answer) -> the requests that follow from these answers."""


def model_in_use() -> LM | None:
    """Return the model of the evaluation in this process; None outside `ragtasks run`."""
    return _IN_USE[0][0] if _IN_USE else None


def served_model_in_use() -> ServedModel | None:
    """Return the model as a served model; None if it is not behind a server."""
    return _IN_USE[0][1] if _IN_USE else None


class AnswerKeeper(AbstractContextManager["AnswerKeeper"]):
    """Saves the answers of an evaluation until its results are saved, or permanently with `use_cache`."""

    def __init__(self, folder: Path | None, use_cache: str | None, end_of_thinking: str = END_OF_THOUGHT) -> None:
        """Choose the path of the log.

        `end_of_thinking` is the mark after which an answer begins.
        """
        self._lasting = f"{use_cache}_rank{{rank}}.sqlite" if use_cache else ""
        self._unsaved = str(folder / "unfinished_rank{rank}.sqlite") if folder is not None else ""
        self._end_of_thinking = end_of_thinking
        self._logs: list[AnswerLog] = []
        _IN_USE.clear()

    def keep(self, model_type: str, model: LM, arguments: dict[str, Any]) -> Any:
        """Return a model that saves its answers, or a baseline unchanged, because its answers cost nothing."""
        served = served_model(model, arguments, self._end_of_thinking)
        _IN_USE[:] = [(model, served)]
        named = arguments.get("model") or arguments.get("pretrained") or model_type
        _LOGGER.info("%s is ready; building the prompts", named)
        if model_type == "dummy" or (model_type.startswith("ragtasks-") and model_type != "ragtasks-endpoint"):
            return model
        log = None
        if name := self._lasting or self._unsaved:
            path = Path(name.replace("{rank}", str(model.rank)))
            log = AnswerLog(path, model_type, arguments, is_lasting=bool(self._lasting))
            self._logs.append(log)
        return SavedAnswers(model, log, served)

    def finish(self) -> None:
        """Delete temporary answer logs after the results are saved."""
        for log in self._logs:
            log.finish()
        self._logs = []

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _IN_USE.clear()
        for log in self._logs:
            log.close()
            if error_type not in {None, ModelError} and log.n_saved:
                _LOGGER.warning(
                    "answers saved in %s: %d; the next call requests only the missing ones", log.path, log.n_saved
                )


class SavedAnswers:
    """A model whose answers are saved as they arrive. All other attributes are those of the model."""

    def __init__(self, model: LM, log: AnswerLog | None, served: ServedModel | None = None) -> None:
        """Wrap a model. Without a log, no answer is saved."""
        self._model, self._log, self._served = model, log, served
        self._pending: dict[str, dict[str, LoggedRequest]] = {}
        self._reported: set[str] = set()
        model.set_cache_hook(self)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the model."""
        return getattr(self._model, name)

    def generate_until(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return the answer to each request; `NoAnswer` for a failed request."""
        if self._served is not None:
            journal = _CallJournal(self, self._served, requests)
            self._request_answers(self._served, journal)
            return list(journal.answers.values())
        answers = self._answers("generate_until", requests, options)
        self._report(answers)
        return answers

    def answer_following(self, requests: Sequence[Instance], take: Take) -> bool:
        """Answer requests and their follow-up requests without waiting for the slowest request of a step.

        Args:
            requests: the first requests.
            take: receives answers as they arrive and returns the requests that follow, at most one per answer.

        Returns:
            False for a model in this process, which cannot return answers one by one; nothing is requested then.
        """
        if self._served is None:
            return False
        self._request_answers(self._served, _ConversationJournal(self, self._served, requests, take))
        return True

    def _request_answers(self, served: ServedModel, journal: _CallJournal) -> None:
        """Send the requests without a saved answer."""
        self._log_saved(journal.n_answered, journal.n_requests)
        _LOGGER.info("requesting %d answers", journal.n_requests - journal.n_answered)
        try:
            with progress_bars() as progress:
                served.client.answer(journal.prompts(), progress, journal)
        except EndpointError as error:
            kept = error.with_replies(self._log.n_saved if self._log is not None else 0, "answers")
            raise ModelError(f"the model gives no more answers: {error.found}. Next step: {kept.next_step}") from error
        self._report(journal.all_answers)

    def _report(self, answers: Sequence[Any]) -> None:
        """Record the number of failed requests and the reasons."""
        reasons = [answer.reason for answer in answers if isinstance(answer, NoAnswer)]
        record_unanswered(reasons, len(answers), is_kept=self._log is not None)

    def look_up(self, requests: Sequence[Instance], n_before: Counter[str]) -> list[Any]:
        """Return the saved answers, with None for missing ones.

        `n_before` contains the number of earlier identical requests and is updated.
        """
        keys = [_logged(request) for request in requests]
        saved = self._log.look_up(keys, n_before) if self._log is not None else [None] * len(keys)
        return [
            None if answer is None else self._with_unused(key, answer) for key, answer in zip(keys, saved, strict=True)
        ]

    def settle(self, request: Instance, answer: Any) -> Any:
        """Save a new answer and return it with the usage of earlier failed replies."""
        key = _logged(request)
        self._keep(key, answer)
        return self._with_unused(key, answer)

    def loglikelihood(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return the log-likelihoods of the model."""
        return [tuple(answer) for answer in self._answers("loglikelihood", requests, options)]

    def loglikelihood_rolling(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return the rolling log-likelihoods of the model."""
        return self._answers("loglikelihood_rolling", requests, options)

    def _answers(self, method: str, requests: Sequence[Instance], options: dict[str, Any]) -> list[Any]:
        keys: list[LoggedRequest] = [(method, request.args) for request in requests]
        answers = self._log.look_up(keys) if self._log is not None else [None] * len(keys)
        missing = [index for index, answer in enumerate(answers) if answer is None]
        self._log_saved(len(keys) - len(missing), len(keys))
        if not missing:
            return list(map(self._with_unused, keys, answers))
        self._reported.clear()
        self._pending.clear()
        for index in missing:
            self._pending.setdefault(_prompt(keys[index][1]), {})[self._identity(keys[index])] = keys[index]
        _LOGGER.info("requesting %d answers", len(missing))
        try:
            new_answers = getattr(self._model, method)([requests[index] for index in missing], **options)
        except Exception as error:
            if not type(error).__module__.startswith("vllm."):
                raise  # may be a bug of ours
            n_saved = self._log.n_saved if self._log is not None else 0
            raise ModelError(
                f"the model gives no more answers: {type(error).__name__}: {str(error).rstrip('.')}. Answers saved: "
                f"{n_saved}. Next step: check --model_args and --gen_kwargs, then run again"
            ) from error
        for index, text in zip(missing, new_answers, strict=True):
            answers[index] = answer = self._counted(method, keys[index], text)
            if self._identity(keys[index]) not in self._reported:  # a model of another package may not call the hook
                self._keep(keys[index], answer)
        return list(map(self._with_unused, keys, answers))

    def _log_saved(self, n_answered: int, n_requests: int) -> None:
        if self._log is not None and n_answered:
            _LOGGER.info(
                "%d of %d requests are answered in %s; only the remaining ones are sent",
                n_answered,
                n_requests,
                self._log.path,
            )

    def _with_unused(self, request: LoggedRequest, answer: Any) -> Any:
        """Return an answer with the usage of earlier replies that contained no answer."""
        return answer if self._log is None else with_calls(answer, self._log.take_unused(request))

    def add_partial(self, method: str, arguments: Sequence[Any], answer: Any) -> None:
        """Save a new answer. The model calls this method, because `SavedAnswers` is its cache hook.

        The harness's vLLM model reports the options of the engine instead of those of the request. The request is then
        the only one with this prompt. If there are several, the answer is saved at the end of the call.
        """
        request: LoggedRequest = method, tuple(arguments)
        pending = self._pending.get(_prompt(arguments), {})
        if method == "generate_until" and self._identity(request) not in pending:
            if len(pending) != 1:
                return
            (request,) = pending.values()
        self._reported.add(self._identity(request))
        self._keep(request, self._counted(request[0], request, answer))

    def _identity(self, request: LoggedRequest) -> str:
        return repr(request) if self._log is None else self._log.name(request)

    def _counted(self, method: str, request: LoggedRequest, answer: Any) -> Any:
        """Return the answer of a model in this process, with token counts from the model's tokenizer."""
        encode = getattr(self._model, "tok_encode", None)
        if method != "generate_until" or encode is None or type(answer) is not str:
            return answer
        prompt = getattr(request[1][0], "prompt", request[1][0])
        usage = {"input_tokens": len(encode(prompt)), "output_tokens": len(encode(answer)), "counted_by": "tokenizer"}
        return SystemAnswer(answer, None, usage)

    def _keep(self, request: LoggedRequest, answer: Any) -> None:
        """Save an answer, or the usage of a reply without one."""
        if self._log is not None and isinstance(answer, NoAnswer):
            self._log.record_unused(request, answer)
        elif self._log is not None:
            self._log.record(request, answer)


def _prompt(arguments: Sequence[Any]) -> str:
    return str(getattr(arguments[0], "prompt", arguments[0]))


def _logged(request: Instance) -> LoggedRequest:
    return "generate_until", request.args


class _CallJournal:
    """Journal of one server call: returns saved answers and saves new ones as they arrive."""

    def __init__(self, saved: SavedAnswers, served: ServedModel, requests: Sequence[Instance]) -> None:
        self._saved, self._served = saved, served
        self._n_before: Counter[str] = Counter()
        self._pending = dict(enumerate(self._with_saved(requests)))
        self.n_requests = len(requests)
        self.n_answered = sum(answer is not None for _, answer in self._pending.values())
        self.answers: dict[int, Any] = dict.fromkeys(self._pending)
        """Answers in the order of the requests."""
        self.all_answers: list[Any] = []
        """All answers so far, in order of arrival."""

    def _with_saved(self, requests: Sequence[Instance]) -> list[tuple[Instance, Any]]:
        """Return requests with their saved answers, or None for requests to send."""
        return list(zip(requests, self._saved.look_up(requests, self._n_before) if requests else [], strict=True))

    def prompts(self) -> list[Prompt]:
        """Return the first prompts."""
        return [self._served.prompt(request) for request, _ in self._pending.values()]

    def recall(self, index: int) -> Reply | None:
        _, answer = self._pending[index]
        if answer is None:
            return None
        self._store(index, answer)
        return Reply(Outcome.ANSWERED, text=str(answer), from_cache=True)

    def record(self, index: int, reply: Reply) -> None:
        request, _ = self._pending[index]
        self._store(index, self._saved.settle(request, self._served.answer(request, reply)))

    def _store(self, index: int, answer: Any) -> None:
        self.answers[index] = answer
        self.all_answers.append(answer)


class _ConversationJournal(_CallJournal):
    """Journal of conversations. Follow-up requests of all new answers are computed together."""

    def __init__(self, saved: SavedAnswers, served: ServedModel, requests: Sequence[Instance], take: Take) -> None:
        super().__init__(saved, served, requests)
        self._take = take
        self._arrived: dict[int, tuple[Instance, Any]] = {}
        self._due: deque[tuple[Instance, Any]] = deque()
        self._lock = asyncio.Lock()

    async def continued(self, index: int) -> Prompt | None:
        """Return the next prompt of any conversation for a free slot, or None if no prompt is due."""
        self._arrived[index] = (self._pending[index][0], self.answers[index])
        async with self._lock:
            if index in self._arrived:
                answered, self._arrived = list(self._arrived.values()), {}
                # Retrieval takes time, so it runs in a thread and other requests continue.
                self._due += self._with_saved(await asyncio.to_thread(self._take, answered))
        if not self._due:
            return None
        self._pending[index] = self._due.popleft()
        return self._served.prompt(self._pending[index][0])
