"""Agentic tasks: the model searches the corpus with a limited number of calls, and then answers.

With a model behind a server, each task continues as soon as its reply arrives. With a model in this process, each step
is one batch for the model and one batch for the retriever. Prompts depend only on earlier replies and stored searches.
After a kill, the next run therefore finds its steps in the saved answers and sends only the missing requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragtasks.benchmarks import Benchmark, Doc, relevant_passages, trajectory_row
from ragtasks.config.environment import run_store, secret
from ragtasks.errors import ConfigurationError
from ragtasks.files import OFFICIAL, canonical_hash
from ragtasks.harness.answers import NoAnswer, SystemAnswer
from ragtasks.harness.live import TOO_LONG, LiveTask, RoundsTask, WaitingRequest
from ragtasks.harness.protocols import PROTOCOLS, Exchange
from ragtasks.harness.scores import writable
from ragtasks.metrics import answer_text
from ragtasks.records import Ending, Role, Trajectory
from ragtasks.results import joined_usage
from ragtasks.scoring import Toolbox, ToolLimits, ToolSession


@dataclass(slots=True)
class Search:
    """State of one task while its model searches."""

    doc: Doc
    """The task, with the history in the model's prompt."""
    session: ToolSession
    """Tool calls of the task."""
    earlier: Mapping[int, Sequence[Exchange]] = field(default_factory=dict)
    """Earlier turn -> its calls and results, if the prompt repeats them."""
    exchanges: list[Exchange] = field(default_factory=list)
    """Calls and results of this turn, in order."""
    usages: list[Mapping[str, Any]] = field(default_factory=list)
    """Usage of each reply."""
    n_shortened: int = 0
    """Number of shortened results."""
    trajectory: Trajectory | None = None
    """Final trajectory; None while the model searches."""

    def shorten(self) -> bool:
        """Shorten the results of one exchange by one level, and return whether any could be shortened.

        The oldest exchange with complete results comes first, then the oldest shortened one, and the latest exchange
        last.
        """
        exchanges = [*itertools.chain.from_iterable(self.earlier.values()), *self.exchanges]
        older = [(level, exchange) for level in (0, 1) for exchange in exchanges[:-1] if exchange.level == level]
        last = [(exchange.level, exchange) for exchange in exchanges[-1:] if exchange.can_be_shortened]
        for _, exchange in [*older, *last]:
            exchange.level += 1
            self.n_shortened += 1
            return True
        return False

    def end(self, ending: Ending) -> None:
        """Store the trajectory with its ending."""
        self.trajectory = self.session.end(ending, n_shortened=self.n_shortened)


class AgenticTask(RoundsTask):
    """One domain of a benchmark. The prompt has no passages, and the model searches for them.

    The YAML is that of a `ConversationTask` with the setting `agentic` and the suite `NAME+agentic`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs and check options, templates and the retriever before a model runs."""
        self._searches: dict[str, Search] = {}
        self._relevant: dict[str, list[str]] = {}
        super().__init__(config)

    def _load_docs(self, benchmark: Benchmark, options: dict[str, Any]) -> None:
        if self.evaluation.run != OFFICIAL:
            raise ConfigurationError(
                f"run {self.evaluation.run!r}: an agentic task searches live and cannot use a stored run. "
                "Next step: leave it out, and choose `retriever`"
            )
        self._protocol = PROTOCOLS[self.evaluation.search_protocol]()
        limits = ToolLimits(calls=self.evaluation.search_calls, k=self.evaluation.search_k)
        self.toolbox = Toolbox(
            benchmark, self.evaluation.retriever, run_store(), secret, limits, injected_share=self.evaluation.injected
        )
        tags = self._protocol.has_tags
        self._prompts.fields = {"calls": limits.calls, "k": limits.k, "most_k": limits.most_k, "tags": tags}
        super()._load_docs(benchmark, options)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests, check that the model supports the protocol, and index the corpora.

        Errors therefore occur before the run.
        """
        self._protocol.begin(self.toolbox.schemas())
        super().build_all_requests(**options)
        domains = list(dict.fromkeys(request.doc["domain"] for request in self._pending.values()))
        self.toolbox.prepare(domains)
        self._relevant = relevant_passages(self.benchmark, domains)

    def _begin_conversations(self) -> None:
        self._searches = {}
        super()._begin_conversations()

    def relevant(self, task_id: str) -> Sequence[str]:
        """Return the ids of the relevant passages of a task; used by the oracle and by reports."""
        return self._relevant.get(task_id, ())

    def search_of(self, task_id: str) -> Search:
        """Return the search state of a task; used by baselines, which do not read prompts."""
        return self._searches[task_id]

    def _ready(self, doc: Doc) -> WaitingRequest | None:
        """Return the first request of a task."""
        self._request_docs[doc["task_id"]] = doc
        self._searches[doc["task_id"]] = self._new_search(doc)
        return self._request(doc["task_id"])

    def _new_search(self, doc: Doc) -> Search:
        """Return the state of a task before its first call."""
        return Search(doc, self.toolbox.session(doc["domain"]))

    def _request(self, task_id: str) -> WaitingRequest | None:
        """Return the next request of a task. If its prompt does not fit the context, end the task and return None."""
        request, search = self._pending[task_id], self._searches[task_id]
        request.doc = search.doc
        prompt = self._prompt(search)
        while not self._budget.has_room(self._protocol.counted(prompt)):
            if not search.shorten():
                search.end(Ending.CONTEXT_FULL)
                self._end(request, "" if search.exchanges else NoAnswer(TOO_LONG))
                return None
            prompt = self._prompt(search)
        request.arguments = (prompt, self._protocol.options(request.arguments[1]))
        return request

    def _prompt(self, search: Search) -> Any:
        """Return the prompt, with calls and results after the question."""
        options = self._rendering
        instruction = options.get("system_instruction")
        template = options.get("chat_template") if options.get("apply_chat_template") else None
        if template is None:
            question = {"role": Role.USER.value, "content": search.doc["question"]}
            conversation = self._with_calls(search, [*search.doc["history"], question])
            doc = {**search.doc, "history": conversation[:-1], "question": conversation[-1]["content"]}
            return self._render_plain(doc, instruction)
        messages = self._with_calls(search, self._messages(search.doc, instruction))
        return self._prompts.renderer.render(messages, template)

    def _with_calls(self, search: Search, conversation: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a conversation with calls and results, each after the question of its turn."""
        by_turn = {**search.earlier, search.doc["turn"]: search.exchanges}
        # All exchanges are rendered together, because calls are numbered across turns.
        call_messages = iter(
            self._protocol.turns([exchange for exchanges in by_turn.values() for exchange in exchanges])
        )
        messages, turn = [], 0
        for message in conversation:
            messages.append(message)
            turn += message["role"] == Role.USER.value
            if message["role"] == Role.USER.value and turn in search.earlier:
                messages += itertools.islice(call_messages, len(self._protocol.turns(search.earlier[turn])))
        return [*messages, *call_messages]

    def take(self, request: WaitingRequest, reply: str) -> None:
        """Store a reply: calls wait for `next_requests`, an answer ends the task."""
        search = self._searches[request.doc["task_id"]]
        search.usages.append(getattr(reply, "usage", {}))
        if isinstance(reply, NoAnswer):
            search.end(Ending.ERROR)
            self._end(request, NoAnswer(reply.reason, joined_usage(search.usages)))
            return
        text = answer_text(str(writable(reply) or ""), self.evaluation.end_of_thinking)
        parsed = self._protocol.parse(reply, text)
        if parsed.calls and search.session.calls_left:
            search.exchanges.append(Exchange(parsed))
            return
        if parsed.calls:
            for call in parsed.calls:
                search.session.call(call.tool, call.arguments)  # recorded as a call over the limit
        search.end(Ending.OUT_OF_CALLS if parsed.calls else Ending.ANSWERED if parsed.answer else Ending.GAVE_UP)
        self._end(request, parsed.answer)

    def _end(self, request: WaitingRequest, answer: str) -> None:
        """End a task with its answer, the retrieved passages and the usage."""
        search = self._searches[request.doc["task_id"]]
        if not isinstance(answer, NoAnswer):
            answer = SystemAnswer(answer, search.session.passages, joined_usage(search.usages))
        super().take(request, answer)

    def next_requests(self, requests: Sequence[WaitingRequest]) -> Sequence[WaitingRequest]:
        """Run the calls of all tasks as one batch and return the next requests, whose prompts contain the results."""
        searches = [self._searches[request.doc["task_id"]] for request in requests]
        active = [search for search in searches if search.trajectory is None]
        calls = [(search.session, call) for search in active for call in search.exchanges[-1].reply.calls]
        results = iter(self.toolbox.call_all(calls))
        for search in active:
            exchange = search.exchanges[-1]
            exchange.results = [next(results) for _ in exchange.reply.calls]
            exchange.calls_left = search.session.calls_left
            search.session.round += 1
        due = [self._request(search.doc["task_id"]) for search in active]
        return [*(request for request in due if request is not None), *super().next_requests(requests)]

    def _logged_doc(self, doc: Doc) -> Doc:
        """Return a doc with the trajectory and the ids of the relevant passages."""
        logged, search = super()._logged_doc(doc), self._searches.get(doc["task_id"])
        if search is None or search.trajectory is None:
            return logged
        relevant = list(self.relevant(doc["task_id"]))
        return {**logged, "trajectory": {**trajectory_row(search.trajectory), "relevant": relevant}}

    def fingerprint(self) -> str:
        """Return a hash of everything that affects the requests, except replies and search results."""
        return canonical_hash([super().fingerprint(), self._tools()])[:16]

    def _tools(self) -> dict[str, Any]:
        return {"protocol": self._protocol.name, **self.toolbox.describe()}

    def _public_metadata(self) -> dict[str, Any]:
        public = super()._public_metadata()
        public["ragtasks"]["tools"] = self._tools()
        return public


class LiveAgenticTask(AgenticTask, LiveTask):
    """An agentic task with the model's own earlier answers.

    With `keep_searches`, the prompt also contains the search results of earlier turns.
    """

    def _new_search(self, doc: Doc) -> Search:
        """Return the state of a turn before its first call. Passage numbers continue after those of kept results."""
        before = [
            search for search in self._searches.values() if search.doc["conversation_id"] == doc["conversation_id"]
        ]
        if not self.evaluation.keep_searches or not before:
            return super()._new_search(doc)
        earlier = {
            search.doc["turn"]: [replace(exchange) for exchange in search.exchanges]
            for search in before
            if search.exchanges
        }
        return Search(doc, self.toolbox.session(doc["domain"], before[-1].session.passages), earlier)

    def _history_options(self) -> dict[str, Any]:
        keeps = {"searches": "earlier searches in sight"} if self.evaluation.keep_searches else {}
        return {**super()._history_options(), **keeps}
