"""Live conversations: each turn is asked with the model's own earlier answers, not with the benchmark's."""

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

# The harness task of live conversations: the model lives with its own earlier answers, as a deployed system does.
# Behind a server each conversation goes on as soon as its turn is answered; a model in this process gets the next turn
# of all as one batch. In full RAG each question is searched for with the model's own history behind it.

_LOGGER = logging.getLogger(__name__)
_SKIPPED = "not asked: turn {turn} of its conversation got no answer"
TOO_LONG = "the prompt and its answer do not fit the model's context"
"""Why a request has no answer that was not sent."""
_LATER = "(this prompt is made when turn {turn} is answered)"
_RENDERING = ("system_instruction", "apply_chat_template", "chat_template")


class RoundsTask(ConversationTask):
    """A harness task whose requests are made while the model answers."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs, and check options, templates and the retriever, before a model runs."""
        self._pending: dict[str, WaitingRequest] = {}
        self._replies: dict[str, str] = {}
        self._request_docs: dict[str, Doc] = {}
        self._rendering: dict[str, Any] = {}
        self._is_building = False
        super().__init__(config)

    def _whole(self, limit: int | None) -> int | None:
        """Return how many docs a limit allows."""
        return limit

    def construct_requests(self, doc: Doc, ctx: Any, **options: Any) -> WaitingRequest:
        """Return the request of a turn; its prompt is not known yet, for the first turn neither."""
        made: Instance = super().construct_requests(doc, _LATER.format(turn=doc["turn"] - 1), **options)
        return WaitingRequest(
            made.request_type, doc, made.arguments, made.idx, metadata=made.metadata, conversations=self
        )

    def build_all_requests(self, **options: Any) -> None:
        """Make the requests, and index the corpora that will be searched: what fails, fails now."""
        if options.get("world_size", 1) > 1:
            raise ConfigurationError(
                f"{self.config.task}: requests that rest on earlier answers are made in one process, and the harness "
                f"was started in {options['world_size']}. Next step: start one (a model over several GPUs: "
                "parallelize=True, or vllm)"
            )
        if options.get("cache_requests"):
            _LOGGER.warning("--cache_requests: prompts of %s depend on earlier answers", self.config.task)
        self._rendering = {name: options[name] for name in _RENDERING if name in options}
        self._is_building = True
        super().build_all_requests(**{**options, "limit": self._whole(options.get("limit")), "cache_requests": False})
        self._is_building = False
        self._budget = self._budget_of(options.get("chat_template"))
        self._replies, self._request_docs = {}, {}
        self._begin_conversations()

    def _budget_of(self, chat_template: Any) -> PromptBudget:
        """Return the prompt budget; without a limit while requests are built, as they have no prompts yet."""
        return PromptBudget() if self._is_building else super()._budget_of(chat_template)

    def _begin_conversations(self) -> None:
        """Have the requests answered in rounds."""
        self._pending = {request.doc["task_id"]: request for request in self._instances}
        for request in self._instances:
            request.request_type = rounds_type()

    def begin(self) -> Sequence[WaitingRequest]:
        """Return the first requests: of all docs."""
        docs = [request.doc for request in self._pending.values()]
        return [request for doc in docs if (request := self._ready(doc)) is not None]

    def _ready(self, doc: Doc) -> WaitingRequest | None:
        """Return the request of a turn with its prompt; None where that does not fit the model: the turn failed."""
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
        """Keep an answer."""
        self._replies[request.doc["task_id"]] = reply

    def next_requests(self, requests: Sequence[WaitingRequest]) -> Sequence[WaitingRequest]:
        """Return the requests that follow from answers: none here."""
        return ()

    def reply_to(self, request: WaitingRequest) -> str:
        """Return what a request was answered."""
        return self._replies[request.doc["task_id"]]

    def apply_filters(self) -> None:
        """Score the answers; prompts that did not fit are a failure of the evaluation."""
        failed = [reply for reply in self._replies.values() if isinstance(reply, NoAnswer)]
        too_long = [reply for reply in failed if reply.reason == TOO_LONG]
        if too_long:
            record_failure(
                f"{self.config.task}: {len(too_long)} prompts did not fit the model's context and were not sent. Next "
                'step: a larger context, or "too_long": "drop_passages" in --metadata'
            )
        super().apply_filters()

    def _reported(self, doc: Doc) -> Doc:
        """Return a doc as it was asked."""
        return super()._reported(self._request_docs.get(doc["task_id"], doc))


class LiveTask(RoundsTask):
    """One setting and one domain of a multi-turn RAG benchmark, with the model's own history.

    Its YAML is that of a `ConversationTask`. Turns that are not scored (conversational ones, those before the docs of
    `--samples`) are asked too: their answers belong to the history.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs, and check options, templates and the retriever, before a model runs."""
        self._turns: list[Doc] = []
        self._retrieval: LiveRetrieval | None = None
        self._histories = ModelHistories((), ())
        super().__init__(config)

    def _take_docs(self, benchmark: Benchmark, options: dict[str, Any]) -> None:
        if Setting(options["setting"]) is Setting.FULL_RAG:
            self._retrieval = self._live_retrieval(benchmark)
        super()._take_docs(benchmark, options)
        every_turn = self.evaluation.model_copy(update={"conversational": True})
        docs = task_dataset(benchmark, options, self._without_run(every_turn), run_store())
        self._turns = [dict(doc) for doc in docs]

    def _dataset(self, benchmark: Benchmark, options: dict[str, Any]) -> Any:
        return task_dataset(benchmark, options, self._without_run(self.evaluation), run_store())

    def _without_run(self, evaluation: Any) -> Any:
        """Return the configuration under which no passages are read that are searched for live."""
        return evaluation.model_copy(update={"run": CLOSED_BOOK}) if self._retrieval is not None else evaluation

    def _live_retrieval(self, benchmark: Benchmark) -> LiveRetrieval:
        if self.evaluation.run != OFFICIAL:
            raise ConfigurationError(
                f"run {self.evaluation.run!r}: live full RAG searches with the model's own history, and a run was "
                "searched for before. Next step: leave it out, and choose `retriever` and `queries`"
            )
        return LiveRetrieval(benchmark, self.evaluation, run_store(), secret)

    @property
    def setting(self) -> str:
        """The setting's name, and whose history it is."""
        return f"{super().setting}, own history"

    def fingerprint(self) -> str:
        """Return a hash of everything that decides the requests but the model's own answers."""
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
        """Return what the replies of rewriter and retriever took."""
        return self._retrieval.spending() if self._retrieval is not None else {}

    def doc_iterator(self, *, limit: int | None = None, **options: Any) -> Iterator[tuple[int, Any]]:
        """Return the docs; a limit is made larger until it holds whole conversations."""
        found: Iterator[tuple[int, Any]] = super().doc_iterator(limit=self._whole(limit), **options)
        return found

    def _whole(self, limit: int | None) -> int | None:
        return whole_conversations(self.dataset["test"]["conversation_id"], limit)

    def build_all_requests(self, **options: Any) -> None:
        """Make the requests of all turns, and index the corpora that will be searched: what fails, fails now."""
        super().build_all_requests(**options)
        if self._retrieval is not None:
            self._retrieval.prepare(doc["domain"] for doc in self._histories.docs.values())

    def _begin_conversations(self) -> None:
        self._histories = ModelHistories(self._turns, [request.doc for request in self._instances])
        scored = {request.doc["task_id"]: request for request in self._instances}
        unscored = {name: doc for name, doc in self._histories.docs.items() if name not in scored}
        metadata = (self.config.task, None, 1)
        others = {name: self.construct_requests(doc, "", metadata=metadata) for name, doc in unscored.items()}
        self._pending = {**scored, **others}
        for request in scored.values():
            request.request_type = rounds_type()
        if others:
            _LOGGER.info("%s: %d turns are asked for the history only", self.config.task, len(others))

    def begin(self) -> Sequence[WaitingRequest]:
        """Return the requests of the first turn of each conversation."""
        return self._begin_turns(self._histories.first_turns())

    def next_requests(self, requests: Sequence[WaitingRequest]) -> Sequence[WaitingRequest]:
        """Return the requests of the turns that follow those that are answered."""
        again = super().next_requests(requests)
        docs = [request.doc for request in requests if request.doc["task_id"] in self._replies]
        return [*again, *self._begin_turns(self._histories.turns_behind(docs))]

    def _begin_turns(self, docs: Sequence[Doc]) -> list[WaitingRequest]:
        """Return the requests of turns, with prompts of the own history; of later ones where these cannot be asked."""
        found: list[WaitingRequest] = []
        while docs:
            docs = [self._histories.with_history(doc) for doc in docs]
            self._request_docs |= {doc["task_id"]: doc for doc in docs}
            going_on = [doc for doc in docs if self._histories.failed_turn(doc) is None]
            if self._retrieval is not None and going_on:
                going_on = self._retrieval.with_passages(going_on)
            ready = [request for doc in going_on if (request := self._ready(doc)) is not None]
            found += ready
            waiting = {request.doc["task_id"] for request in ready}
            docs = self._histories.turns_behind([doc for doc in docs if doc["task_id"] not in waiting])
        return found

    def take(self, request: WaitingRequest, reply: str) -> None:
        """Put an answer into the history, without the thinking text before it; a failed request ends it."""
        super().take(request, reply)
        if isinstance(reply, NoAnswer):
            self._histories.fail(request.doc)
        else:
            text = answer_text(str(writable(reply) or ""), self.evaluation.end_of_thinking)
            self._histories.take(request.doc, text.strip())

    def reply_to(self, request: WaitingRequest) -> str:
        """Return what a request was answered, or that it was not asked."""
        ended = self._histories.failed_turn(request.doc)
        return super().reply_to(request) if ended is None else NoAnswer(_SKIPPED.format(turn=ended))

    def _skipped_docs(self) -> list[Doc]:
        docs = (self._histories.docs[name] for name in self._histories.scored)
        return [doc for doc in docs if self._histories.failed_turn(doc) is not None]

    def apply_filters(self) -> None:
        """Score the answers; turns that could not be asked are a failure of the evaluation."""
        if skipped := self._skipped_docs():
            record_failure(
                f"{self.config.task}: {len(skipped)} later turns of conversations in which a turn got no answer were "
                "not asked, and are unscored. Next step: run the same command again"
            )
        if self._retrieval is not None and (problem := self._retrieval.problem()):
            record_failure(f"{self.config.task}: {problem}")
        super().apply_filters()


# Requests that wait for earlier answers. The harness puts the requests of all its tasks together by their type and
# calls a model's method of that name. Ours have a type of their own, and models are given a method for it: it makes
# prompts out of the answers before, and hands them to `generate_until`. Nothing of a model is replaced, so this works
# for every model of the harness, behind its cache and behind our own keeping of answers.

_TYPE = "generate_in_rounds"
_MODEL_TYPES = (LM, CachingLM, SavedAnswers)
"""What the harness may call: a model, or what stands before one. Each keeps its own way of answering."""


@dataclass(eq=False)
class WaitingRequest(Instance):
    """A request whose prompt is made when the turns before it are answered."""

    conversations: RoundsTask | None = field(default=None, repr=False)
    """Where it belongs."""


def rounds_type() -> str:
    """Return the type of requests that are answered in rounds; every model has a method of that name then."""
    for kind in _MODEL_TYPES:
        if not hasattr(kind, _TYPE):
            setattr(kind, _TYPE, _ask)
    return _TYPE


def _ask(model: Any, requests: Sequence[WaitingRequest]) -> list[str]:
    """Return the answers to requests; turns before them that nobody scores are asked on the way."""
    conversations = dict.fromkeys(request.conversations for request in requests if request.conversations is not None)
    due: Sequence[Any] = [request for each in conversations for request in each.begin()]
    if due and not (isinstance(model, SavedAnswers) and model.answer_following(due, _following)):
        while due:
            due = _following(list(zip(due, model.generate_until(due), strict=True)))
    return [request.conversations.reply_to(request) for request in requests if request.conversations is not None]


def _following(answered: Sequence[tuple[WaitingRequest, Any]]) -> list[WaitingRequest]:
    """Hand answers to their conversations, and return the requests that follow."""
    groups: dict[RoundsTask, list[WaitingRequest]] = {}
    for request, reply in answered:
        if request.conversations is not None:
            request.conversations.take(request, reply)
            groups.setdefault(request.conversations, []).append(request)
    return [request for each, requests in groups.items() for request in each.next_requests(requests)]


# Conversations that go on with a model's own answers.

Turn = tuple[str, int]
"""(conversation id, user turn from 1)."""


class ModelHistories:
    """What a model answered so far in each conversation, and the docs that its next turns are made of.

    A turn that failed ends its conversation: there is no answer that later turns could follow, and the benchmark's or
    an empty one in its place would be one that the model did not give. An empty answer is an answer.
    """

    def __init__(self, docs: Iterable[Doc], scored: Iterable[Doc]) -> None:
        """Choose the turns to ask: those that are scored, and all turns before them."""
        self.scored = {doc["task_id"] for doc in scored}
        task_ids = list(docs)
        last: dict[str, int] = {}
        for doc in task_ids:
            if doc["task_id"] in self.scored:
                last[doc["conversation_id"]] = max(doc["turn"], last.get(doc["conversation_id"], 0))
        self.docs: dict[str, Doc] = {
            doc["task_id"]: doc for doc in task_ids if doc["turn"] <= last.get(doc["conversation_id"], 0)
        }
        """Task id -> doc of each turn that is asked, with the benchmark's history."""
        self._turns: dict[str, list[Doc]] = {}
        for doc in sorted(self.docs.values(), key=lambda doc: int(doc["turn"])):
            self._turns.setdefault(doc["conversation_id"], []).append(doc)
        self._answers: dict[Turn, str] = {}
        self._failed: dict[str, int] = {}

    def first_turns(self) -> list[Doc]:
        """Return the first turn of each conversation."""
        return [docs[0] for docs in self._turns.values()]

    def turns_behind(self, docs: Iterable[Doc]) -> list[Doc]:
        """Return the next turns of conversations, where there are any."""
        found = []
        for doc in docs:
            later = (item for item in self._turns[doc["conversation_id"]] if item["turn"] > doc["turn"])
            found += list(itertools.islice(later, 1))
        return found

    def with_history(self, doc: Doc) -> Doc:
        """Return a turn with the model's own answers in the history."""
        return {**doc, "history": self._history(doc)}

    def _history(self, doc: Doc) -> list[dict[str, str]]:
        """Return the conversation before a question; a turn that the benchmark has no task for keeps its reply."""
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
        """Keep the answer to a turn."""
        self._answers[doc["conversation_id"], doc["turn"]] = answer

    def fail(self, doc: Doc) -> None:
        """End a conversation: this turn of it got no answer."""
        self._failed.setdefault(doc["conversation_id"], doc["turn"])

    def failed_turn(self, doc: Doc) -> int | None:
        """Return the turn before a question at which its conversation ended, None where it goes on."""
        turn = self._failed.get(doc["conversation_id"])
        return turn if turn is not None and turn < doc["turn"] else None


def whole_conversations(conversations: Sequence[str], limit: int | None) -> int | None:
    """Return the smallest number of docs, not under a limit, that are whole conversations; None for no limit."""
    if not limit:
        return None
    last = {name: place + 1 for place, name in enumerate(conversations)}
    n, reach = 0, 0
    while n < min(max(limit, reach), len(conversations)):
        reach = max(reach, last[conversations[n]])
        n += 1
    return n
