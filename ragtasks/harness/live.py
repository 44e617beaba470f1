"""Live conversations: each prompt contains the model's own earlier answers instead of the benchmark's."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM

from ragtasks.benchmarks import Benchmark, Doc
from ragtasks.clients import Spending
from ragtasks.config.environment import run_store, secret
from ragtasks.errors import ConfigurationError
from ragtasks.files import CLOSED_BOOK, OFFICIAL, canonical_hash
from ragtasks.harness.answering import SavedAnswers
from ragtasks.harness.answers import NoAnswer
from ragtasks.harness.conversation_task import ConversationTask, task_dataset
from ragtasks.harness.prompts import PromptBudget
from ragtasks.harness.scores import writable
from ragtasks.metrics import answer_text
from ragtasks.records import Role, Setting
from ragtasks.scoring import LiveRetrieval, record_failure
from ragtasks.tables import grouped

# As in a deployed system, the model continues with its own earlier answers. With a model behind a server, each
# conversation continues as soon as its turn is answered. A model in this process receives the next turn of all
# conversations as one batch. In full RAG, each question is searched with the model's own history.

_LOGGER = logging.getLogger(__name__)
_SKIPPED = "not sent: turn {turn} of its conversation has no answer"
TOO_LONG = "the prompt and its answer do not fit the model's context"
"""Reason for a request that was not sent."""
_LATER = "(this prompt is made when turn {turn} is answered)"
_RENDERING = ("system_instruction", "apply_chat_template", "chat_template")


class RoundsTask(ConversationTask):
    """A harness task whose requests are built while the model answers."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs and check options, templates and the retriever before a model runs."""
        self._pending: dict[str, WaitingRequest] = {}
        self._replies: dict[str, str] = {}
        self._request_docs: dict[str, Doc] = {}
        self._rendering: dict[str, Any] = {}
        self._is_building = False
        super().__init__(config)

    def _completed_limit(self, limit: int | None) -> int | None:
        """Return the number of docs to evaluate under a limit."""
        return limit

    def construct_requests(self, doc: Doc, ctx: Any, **options: Any) -> WaitingRequest:
        """Return the request of a turn. Its prompt is built later, also for the first turn."""
        request: Instance = super().construct_requests(doc, _LATER.format(turn=doc["turn"] - 1), **options)
        return WaitingRequest(
            request.request_type, doc, request.arguments, request.idx, metadata=request.metadata, conversations=self
        )

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests and index the corpora, so that errors occur before the run."""
        if options.get("world_size", 1) > 1:
            raise ConfigurationError(
                f"{self.config.task}: requests that depend on earlier answers need a single process, and the harness "
                f"was started in {options['world_size']}. Next step: start one (for a model over several GPUs: "
                "parallelize=True, or vllm)"
            )
        if options.get("cache_requests"):
            _LOGGER.warning("--cache_requests: prompts of %s depend on earlier answers", self.config.task)
        self._rendering = {name: options[name] for name in _RENDERING if name in options}
        self._is_building = True
        super().build_all_requests(
            **{**options, "limit": self._completed_limit(options.get("limit")), "cache_requests": False}
        )
        self._is_building = False
        self._budget = self._budget_of(options.get("chat_template"))
        self._replies, self._request_docs = {}, {}
        self._begin_conversations()

    def _budget_of(self, chat_template: Any) -> PromptBudget:
        """Return the prompt budget, without a limit while requests are built without prompts."""
        return PromptBudget() if self._is_building else super()._budget_of(chat_template)

    def _begin_conversations(self) -> None:
        """Set the type of the requests to the type that is answered in rounds."""
        self._pending = {request.doc["task_id"]: request for request in self._instances}
        for request in self._instances:
            request.request_type = rounds_type()

    def begin(self) -> Sequence[WaitingRequest]:
        """Return the first request of each doc."""
        docs = [request.doc for request in self._pending.values()]
        return [request for doc in docs if (request := self._ready(doc)) is not None]

    def _ready(self, doc: Doc) -> WaitingRequest | None:
        """Return the request of a turn with its prompt. If it exceeds the context, fail the turn and return None."""
        request = self._pending[doc["task_id"]]
        self._request_docs[doc["task_id"]] = doc
        request.doc = doc
        request.arguments = (self.fewshot_context(doc, **self._rendering), *request.arguments[1:])
        if self._budget.kept.get(doc["task_id"], 0) >= 0:
            return request
        del self._budget.kept[doc["task_id"]]
        self.take(request, NoAnswer(TOO_LONG))
        return None

    def take(self, request: WaitingRequest, reply: str) -> None:
        """Store an answer."""
        self._replies[request.doc["task_id"]] = reply

    def next_requests(self, requests: Sequence[WaitingRequest]) -> Sequence[WaitingRequest]:
        """Return no requests: a doc has only one."""
        return ()

    def reply_to(self, request: WaitingRequest) -> str:
        """Return the answer to a request."""
        return self._replies[request.doc["task_id"]]

    def apply_filters(self) -> None:
        """Score the answers. Prompts that exceed the context are recorded as a failure of the evaluation."""
        failed = [reply for reply in self._replies.values() if isinstance(reply, NoAnswer)]
        too_long = [reply for reply in failed if reply.reason == TOO_LONG]
        if too_long:
            record_failure(
                f"{self.config.task}: {len(too_long)} prompts did not fit the model's context and were not sent. Next "
                'step: a larger context, or "too_long": "drop_passages" in --metadata or `options`'
            )
        super().apply_filters()

    def _logged_doc(self, doc: Doc) -> Doc:
        """Return a doc as in the request."""
        return super()._logged_doc(self._request_docs.get(doc["task_id"], doc))


class LiveTask(RoundsTask):
    """One setting and one domain of a multi-turn RAG benchmark, with the model's own history.

    The YAML is that of a `ConversationTask`. Unscored turns (conversational ones, and those before the docs of
    `--samples`) are requested too, because the history needs their answers.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs and check options, templates and the retriever before a model runs."""
        self._turns: list[Doc] = []
        self._retrieval: LiveRetrieval | None = None
        self._histories = ModelHistories((), ())
        super().__init__(config)

    def _load_docs(self, benchmark: Benchmark, options: dict[str, Any]) -> None:
        if Setting(options["setting"]) is Setting.FULL_RAG:
            if self.evaluation.run != OFFICIAL:
                raise ConfigurationError(
                    f"run {self.evaluation.run!r}: live full RAG searches with the model's own history and cannot use "
                    "a stored run. Next step: leave it out, and choose `retriever` and `queries`"
                )
            self._retrieval = LiveRetrieval(benchmark, self.evaluation, run_store(), secret)
        super()._load_docs(benchmark, options)
        every_turn = self.evaluation.model_copy(update={"conversational": True})
        docs = task_dataset(benchmark, options, self._without_run(every_turn), run_store())
        self._turns = [dict(doc) for doc in docs]

    def _dataset(self, benchmark: Benchmark, options: dict[str, Any]) -> Any:
        return task_dataset(benchmark, options, self._without_run(self.evaluation), run_store())

    def _without_run(self, evaluation: Any) -> Any:
        """Return a configuration that reads no stored passages, if retrieval is live."""
        return evaluation.model_copy(update={"run": CLOSED_BOOK}) if self._retrieval is not None else evaluation

    @property
    def setting(self) -> str:
        """Name of the setting, with the type of history."""
        return f"{super().setting}, own history"

    def fingerprint(self) -> str:
        """Return a hash of everything that affects the requests, except the model's own answers."""
        return canonical_hash([super().fingerprint(), self._history_options()])[:16]

    def _history_options(self) -> dict[str, Any]:
        return {"answers": "own", **(self._retrieval.options() if self._retrieval is not None else {})}

    def _public_metadata(self) -> dict[str, Any]:
        public = super()._public_metadata()
        counted = self._retrieval.counts() if self._retrieval is not None else {}
        n_unscored = len(self._histories.docs) - len(self._histories.scored)
        counts = {"turns_not_scored": n_unscored, "turns_not_asked": len(self._skipped_docs()), **counted}
        public["ragtasks"]["history"] = {**self._history_options(), "counts": counts}
        return public

    def _spending(self) -> Spending:
        """Return the usage of rewriter and retriever."""
        return self._retrieval.spending() if self._retrieval is not None else {}

    def doc_iterator(self, *, limit: int | None = None, **options: Any) -> Iterator[tuple[int, Any]]:
        """Return the docs. A limit is increased to complete the last conversation."""
        docs: Iterator[tuple[int, Any]] = super().doc_iterator(limit=self._completed_limit(limit), **options)
        return docs

    def _completed_limit(self, limit: int | None) -> int | None:
        return completed_limit(self.dataset["test"]["conversation_id"], limit)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests of all turns and index the corpora, so that errors occur before the run."""
        super().build_all_requests(**options)
        if self._retrieval is not None:
            self._retrieval.prepare(doc["domain"] for doc in self._histories.docs.values())

    def _begin_conversations(self) -> None:
        self._histories = ModelHistories(self._turns, [request.doc for request in self._instances])
        scored = {request.doc["task_id"]: request for request in self._instances}
        unscored = {name: doc for name, doc in self._histories.docs.items() if name not in scored}
        metadata = (self.config.task, None, 1)
        unscored_requests = {
            name: self.construct_requests(doc, "", metadata=metadata) for name, doc in unscored.items()
        }
        self._pending = {**scored, **unscored_requests}
        for request in scored.values():
            request.request_type = rounds_type()
        if unscored_requests:
            _LOGGER.info("%s: %d turns are requested only for the history", self.config.task, len(unscored_requests))

    def begin(self) -> Sequence[WaitingRequest]:
        """Return the requests of the first turn of each conversation."""
        return self._begin_turns(self._histories.first_turns())

    def next_requests(self, requests: Sequence[WaitingRequest]) -> Sequence[WaitingRequest]:
        """Return the requests of the turns after the answered ones."""
        follow_ups = super().next_requests(requests)
        docs = [request.doc for request in requests if request.doc["task_id"] in self._replies]
        return [*follow_ups, *self._begin_turns(self._histories.turns_after(docs))]

    def _begin_turns(self, docs: Sequence[Doc]) -> list[WaitingRequest]:
        """Return the requests of turns with the model's own history. Failed turns are skipped with their successors."""
        due: list[WaitingRequest] = []
        while docs:
            docs = [self._histories.with_history(doc) for doc in docs]
            self._request_docs |= {doc["task_id"]: doc for doc in docs}
            active = [doc for doc in docs if self._histories.failed_turn(doc) is None]
            if self._retrieval is not None and active:
                active = self._retrieval.with_passages(active)
            ready = [request for doc in active if (request := self._ready(doc)) is not None]
            due += ready
            waiting = {request.doc["task_id"] for request in ready}
            docs = self._histories.turns_after([doc for doc in docs if doc["task_id"] not in waiting])
        return due

    def take(self, request: WaitingRequest, reply: str) -> None:
        """Add an answer without thinking text to the history. A failed request ends the conversation."""
        super().take(request, reply)
        if isinstance(reply, NoAnswer):
            self._histories.fail(request.doc)
        else:
            text = answer_text(str(writable(reply) or ""), self.evaluation.end_of_thinking)
            self._histories.take(request.doc, text.strip())

    def reply_to(self, request: WaitingRequest) -> str:
        """Return the answer to a request, or the reason why it was not sent."""
        ended = self._histories.failed_turn(request.doc)
        return super().reply_to(request) if ended is None else NoAnswer(_SKIPPED.format(turn=ended))

    def _skipped_docs(self) -> list[Doc]:
        docs = (self._histories.docs[name] for name in self._histories.scored)
        return [doc for doc in docs if self._histories.failed_turn(doc) is not None]

    def apply_filters(self) -> None:
        """Score the answers. Turns that were not requested are recorded as a failure of the evaluation."""
        if skipped := self._skipped_docs():
            record_failure(
                f"{self.config.task}: {len(skipped)} turns were not requested and are unscored, because an earlier "
                "turn of their conversation has no answer. Next step: run the same command again"
            )
        if self._retrieval is not None and (problem := self._retrieval.problem()):
            record_failure(f"{self.config.task}: {problem}")
        super().apply_filters()


# Requests that wait for earlier answers. The harness groups the requests of all tasks by type and calls the model's
# method of that name. Our requests have their own type, and models get a method for it that builds prompts from earlier
# answers and calls `generate_until`. No method of a model is replaced, so this works for every harness model, behind
# the harness's cache and behind `SavedAnswers`.

_TYPE = "generate_in_rounds"
_MODEL_TYPES = (LM, CachingLM, SavedAnswers)
"""Classes that the harness calls: a model or a wrapper. Each keeps its own `generate_until`."""


@dataclass(eq=False)
class WaitingRequest(Instance):
    """A request whose prompt is built after the turns before it are answered."""

    conversations: RoundsTask = field(kw_only=True, repr=False)
    """The task of the request."""


def rounds_type() -> str:
    """Add the method for requests in rounds to every model class, and return its name."""
    for model_class in _MODEL_TYPES:
        if not hasattr(model_class, _TYPE):
            setattr(model_class, _TYPE, _answer_in_rounds)
    return _TYPE


def _answer_in_rounds(model: Any, requests: Sequence[WaitingRequest]) -> list[str]:
    """Return the answers to requests. Unscored turns before them are requested as well."""
    tasks = dict.fromkeys(request.conversations for request in requests)
    due: Sequence[Any] = [request for task in tasks for request in task.begin()]
    if due and not (isinstance(model, SavedAnswers) and model.answer_following(due, _next_requests)):
        while due:
            due = _next_requests(list(zip(due, model.generate_until(due), strict=True)))
    return [request.conversations.reply_to(request) for request in requests]


def _next_requests(answered: Sequence[tuple[WaitingRequest, Any]]) -> list[WaitingRequest]:
    """Pass answers to their tasks and return the requests that follow."""
    groups: dict[RoundsTask, list[WaitingRequest]] = {}
    for request, reply in answered:
        request.conversations.take(request, reply)
        groups.setdefault(request.conversations, []).append(request)
    return [request for task, requests in groups.items() for request in task.next_requests(requests)]


# The state of conversations with a model's own answers.

Turn = tuple[str, int]
"""(conversation id, user turn from 1)."""


class ModelHistories:
    """The model's answers in each conversation, and the docs of its next turns.

    A failed turn ends its conversation: later turns need its answer, and neither the benchmark's answer nor an empty
    text may replace it. An empty text from the model itself is an answer.
    """

    def __init__(self, docs: Iterable[Doc], scored: Iterable[Doc]) -> None:
        """Select the turns to request: the scored turns and all turns before them."""
        self.scored = {doc["task_id"] for doc in scored}
        all_docs = list(docs)
        last: dict[str, int] = {}
        for doc in all_docs:
            if doc["task_id"] in self.scored:
                last[doc["conversation_id"]] = max(doc["turn"], last.get(doc["conversation_id"], 0))
        self.docs: dict[str, Doc] = {
            doc["task_id"]: doc for doc in all_docs if doc["turn"] <= last.get(doc["conversation_id"], 0)
        }
        """Task id -> doc of each requested turn, with the benchmark's history."""
        in_turn = sorted(self.docs.values(), key=lambda doc: int(doc["turn"]))
        self._turns = grouped(in_turn, lambda doc: str(doc["conversation_id"]))
        self._answers: dict[Turn, str] = {}
        self._failed: dict[str, int] = {}

    def first_turns(self) -> list[Doc]:
        """Return the first turn of each conversation."""
        return [docs[0] for docs in self._turns.values()]

    def turns_after(self, docs: Iterable[Doc]) -> list[Doc]:
        """Return the next turn of each conversation that has one."""
        turns = []
        for doc in docs:
            later = (turn for turn in self._turns[doc["conversation_id"]] if turn["turn"] > doc["turn"])
            turns += list(itertools.islice(later, 1))
        return turns

    def with_history(self, doc: Doc) -> Doc:
        """Return a turn with the model's own answers in the history."""
        return {**doc, "history": self._history(doc)}

    def _history(self, doc: Doc) -> list[dict[str, str]]:
        """Return the conversation before a question. Turns without a task keep the benchmark's reply."""
        messages, own = [], None
        turn = 0
        for message in doc["history"]:
            if message["role"] == Role.USER.value:
                turn += 1
                own = self._answers.get((doc["conversation_id"], turn))
                messages.append(dict(message))
                if own is not None:
                    messages.append({"role": Role.ASSISTANT.value, "content": own})
            elif own is None:
                messages.append(dict(message))
        return messages

    def take(self, doc: Doc, answer: str) -> None:
        """Store the answer to a turn."""
        self._answers[doc["conversation_id"], doc["turn"]] = answer

    def fail(self, doc: Doc) -> None:
        """End a conversation after a failed turn."""
        self._failed.setdefault(doc["conversation_id"], doc["turn"])

    def failed_turn(self, doc: Doc) -> int | None:
        """Return the failed turn before a question, or None if all earlier turns were answered."""
        turn = self._failed.get(doc["conversation_id"])
        return turn if turn is not None and turn < doc["turn"] else None


def completed_limit(conversations: Sequence[str], limit: int | None) -> int | None:
    """Return the smallest number of docs, at least the limit, that splits no conversation; None without a limit."""
    if not limit:
        return None
    last = {name: index + 1 for index, name in enumerate(conversations)}
    n, reach = 0, 0
    while n < min(max(limit, reach), len(conversations)):
        reach = max(reach, last[conversations[n]])
        n += 1
    return n
