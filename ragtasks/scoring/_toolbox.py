"""Tools of a model that searches while it answers: `search` and `read`, over the corpora of a benchmark.

A `Toolbox` belongs to an evaluation or a server, a `ToolSession` to one task. A call always returns a `ToolResult`,
whatever the model writes: an invalid call gives a sentence to the model and a `CallProblem` in the trajectory. Only a
failing retriever raises an exception (`RagtasksError`), since the model did not cause it.

    toolbox = Toolbox(benchmark, "bm25", store, secrets)
    session = toolbox.session("govt")
    session.call("search", {"query": "permit cost"}).text      # for the model
    session.end(Ending.ANSWERED).steps                         # for the record
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks import INJECTED_VERSION, Benchmark, injected
from ragtasks.clients import Secrets, no_secrets
from ragtasks.records import READ, SEARCH, CallProblem, Ending, Passage, ToolStep, Trajectory

if TYPE_CHECKING:
    from retrieval_cache import StoredSearches

_LONGEST_RECORDED = 200  # characters of a recorded argument or tool name; a valid query is recorded in full
_LARGEST = 2**53  # maximum integer that every JSON reader represents exactly


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Limits on a model's tool calls."""

    calls: int = 8
    """Calls per task; a failed call counts too."""
    k: int = 5
    """Passages per search if the model gives no number."""
    most_k: int = 20
    """Maximum passages per search."""
    query_characters: int = 1000
    neighbours: int = 1
    """Passages before and after the passage that is read."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as written by a model."""

    tool: str
    arguments: Any
    """An object, or its JSON text, as in an OpenAI tool call."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call."""

    text: str
    passages: tuple[Passage, ...] = ()
    problem: CallProblem | None = None
    """Problem with the call; also None if a search has no results."""
    numbers: tuple[int, ...] = ()
    """Number of each passage among all passages of the task, from 1: answers may cite it."""

    def shortened(self, n_characters: int) -> str:
        """Return the text with the first characters of each passage, or only the ids for 0."""
        if not self.passages:
            return self.text
        return "\n\n".join(
            passage_block(number, passage, n_characters)
            for number, passage in zip(self.numbers, self.passages, strict=True)
        )


class Toolbox:
    """The tools over the corpora of one benchmark, with one retriever."""

    def __init__(
        self,
        benchmark: Benchmark,
        line: str,
        store: Path,
        secrets: Secrets = no_secrets,
        limits: ToolLimits = ToolLimits(),
        *,
        injected_share: float = 0.0,
    ) -> None:
        """Choose retriever and limits; indexing happens in `prepare` or at the first call.

        Args:
            benchmark: the benchmark of the corpora.
            line: the retriever, such as `bm25` or `hybrid(bm25,dense:minilm)`.
            store: the run store, with indexes and stored searches.
            secrets: variable -> key of a server.
            limits: limits on the model's calls.
            injected_share: share of searches, 0 to 1, that show a further passage with an injected instruction.

        Raises:
            ConfigurationError: the line is no valid retriever.
        """
        from retrieval_cache import RunStore, StoredSearches, parse

        self.line: str = parse(line, secrets, RunStore(store).replies).name
        """The retriever, in canonical form."""
        self.limits = limits
        """Limits on the model's calls."""
        self._injected_share = injected_share
        self._open = partial(StoredSearches, benchmark, line=self.line, store=store, secrets=secrets)
        self._corpora: dict[str, StoredSearches] = {}

    def prepare(self, domains: Iterable[str]) -> None:
        """Index the corpora of some domains, so that a missing component is reported before a model is called."""
        for domain in dict.fromkeys(domains):
            self._corpus(domain)

    def _corpus(self, domain: str) -> StoredSearches:
        if domain not in self._corpora:
            self._corpora[domain] = self._open(domain)
        return self._corpora[domain]

    def describe(self) -> dict[str, Any]:
        """Return the description for results: retriever, limits, and domain -> hash of its stored searches."""
        limits = {name: getattr(self.limits, name) for name in ToolLimits.__slots__}
        injects = {"injected": [INJECTED_VERSION, self._injected_share]} if self._injected_share else {}
        searches = {name: corpus.key for name, corpus in self._corpora.items()}
        return {"retriever": self.line, **limits, **injects, "searches": searches}

    @property
    def n_searched(self) -> int:
        """Queries searched in this process; other results came from the store."""
        return sum(corpus.n_searched for corpus in self._corpora.values())

    def schemas(self) -> list[dict[str, Any]]:
        """Return name, description and JSON schema of the arguments of each tool, in the fields of OpenAI and MCP."""
        limits = self.limits
        query = {"type": "string", "maxLength": limits.query_characters, "description": "what to search for"}
        k = {"type": "integer", "minimum": 1, "maximum": limits.most_k, "default": limits.k}
        search = {"query": query, "k": {**k, "description": "how many passages to show"}}
        read = {"passage_id": {"type": "string", "description": "id of a passage, as a search showed it"}}
        return [
            _schema(SEARCH, "Search the documents. Shows the best passages, each with its id.", search, "query"),
            _schema(READ, "Show a passage with the text around it in its document.", read, "passage_id"),
        ]

    def passage(self, domain: str, passage_id: str) -> Passage | None:
        """Return a passage of a domain's corpus, or None for an unknown id."""
        return self._corpus(domain).passages.get(passage_id)

    def session(self, domain: str, shown: Iterable[Passage] = ()) -> ToolSession:
        """Return the session of one task over its domain's corpus; its model was `shown` these passages before."""
        return ToolSession(self, domain, shown)

    def call_all(self, calls: Sequence[tuple[ToolSession, ToolCall]]) -> list[ToolResult]:
        """Return the results of calls of many tasks, in order; the retriever gets all queries of a corpus at once."""
        pending_calls = [session.begin(call) for session, call in calls]
        for domain in dict.fromkeys(session.domain for session, _ in calls):
            searches = [pending for pending in pending_calls if pending.domain == domain and pending.query is not None]
            corpus = self._corpus(domain)
            rankings = (
                corpus.search([pending.query for pending in searches if pending.query is not None]) if searches else {}
            )
            for pending in searches:
                ranked = rankings[pending.query or ""][: pending.k]
                shown = [corpus.passages[hit.passage_id] for hit in ranked]
                pending.passages = list(injected(shown, self._injected_share, f"{domain}\n{pending.query}"))
                # An injected passage has no rank.
                pending.scores = [hit.score for hit in ranked] if len(pending.passages) == len(shown) else []
            for pending in pending_calls:
                if pending.domain == domain and pending.passage_id is not None:
                    pending.passages = list(corpus.neighbours(pending.passage_id, self.limits.neighbours))
        return [session.finish(pending) for (session, _), pending in zip(calls, pending_calls, strict=True)]


def _schema(name: str, description: str, properties: Mapping[str, Any], required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}
    return {"name": name, "description": description, "parameters": schema}


@dataclass(slots=True)
class _PendingCall:
    """A parsed call, and its result once it was executed."""

    domain: str
    tool: str
    arguments: dict[str, Any]
    query: str | None = None
    passage_id: str | None = None
    k: int = 0
    is_bounded: bool = False
    problem: CallProblem | None = None
    text: str = ""
    passages: list[Passage] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class ToolSession:
    """The calls of one task."""

    def __init__(self, toolbox: Toolbox, domain: str, shown: Iterable[Passage] = ()) -> None:
        """Start a session; use `Toolbox.session`."""
        self.domain = domain
        """Domain of the searched corpus."""
        self.round = 1
        """Number of the model's reply, from 1; the caller increments it."""
        self._toolbox, self._limits = toolbox, toolbox.limits
        self._steps: list[ToolStep] = []
        self._n_begun = 0
        self._passages = {passage.passage_id: passage for passage in shown}
        self._earlier_calls: set[str] = set()

    @property
    def calls_left(self) -> int:
        """Calls that the model may still make."""
        return max(0, self._limits.calls - self._n_begun)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All passages shown to the model, without duplicates, in order."""
        return tuple(self._passages.values())

    def call(self, tool: str, arguments: Any) -> ToolResult:
        """Return the result of one call; `arguments` as in `ToolCall`."""
        return self._toolbox.call_all([(self, ToolCall(tool, arguments))])[0]

    def end(self, ending: Ending, *, n_shortened: int = 0) -> Trajectory:
        """Return the trajectory of the task."""
        return Trajectory(tuple(self._steps), ending, self.round, n_shortened)

    def begin(self, call: ToolCall) -> _PendingCall:
        """Parse and count a call; for `Toolbox.call_all`."""
        self._n_begun += 1
        arguments = _parsed_arguments(call.arguments)
        tool = _single_line(str(call.tool))[:_LONGEST_RECORDED]
        fields = {"unread": call.arguments} if arguments is None else arguments
        pending = _PendingCall(
            self.domain, tool, {_single_line(str(name))[:40]: _recordable(value) for name, value in fields.items()}
        )
        if self._n_begun > self._limits.calls:
            pending.problem = CallProblem.OUT_OF_CALLS
            pending.text = f"No calls are left: {self._limits.calls} were all. Give your answer now."
        elif tool not in (SEARCH, READ):
            pending.problem = CallProblem.UNKNOWN_TOOL
            pending.text = f"There is no tool {tool[:40]!r}. The tools are {SEARCH} and {READ}."
        elif arguments is None:
            _mark_malformed(pending, "arguments must be a JSON object")
        elif tool == SEARCH:
            self._begin_search(pending, arguments)
        else:
            _begin_read(pending, arguments)
        return pending

    def _begin_search(self, pending: _PendingCall, arguments: Mapping[str, Any]) -> None:
        query = _single_line(arguments["query"]) if isinstance(arguments.get("query"), str) else ""
        k = _integer(self._limits.k if arguments.get("k") is None else arguments["k"])  # null: left out
        if unknown := sorted(map(str, arguments.keys() - {"query", "k"})):
            _mark_malformed(pending, f"{SEARCH} takes query and k, and got {unknown[0][:40]!r}")
        elif not query:
            _mark_malformed(pending, "query must be a text that is not empty")
        elif len(query) > self._limits.query_characters:
            pending.problem = CallProblem.QUERY_TOO_LONG
            most = self._limits.query_characters
            pending.text = (
                f"The query has {len(query)} characters; at most {most} are allowed. Search with fewer words."
            )
        elif k is None or k < 1:
            _mark_malformed(pending, f"k must be a whole number from 1 to {self._limits.most_k}")
        else:
            pending.query, pending.k, pending.is_bounded = query, min(k, self._limits.most_k), k > self._limits.most_k
            pending.arguments["query"] = query

    def finish(self, pending: _PendingCall) -> ToolResult:
        """Record an executed call and format its result; for `Toolbox.call_all`."""
        if not pending.passages and (shown := self._passages.get(pending.passage_id or "")):  # injected: in no corpus
            pending.passages = [shown]
        if pending.passage_id is not None and not pending.passages:
            pending.problem = CallProblem.UNKNOWN_PASSAGE
            pending.text = f"There is no passage {pending.passage_id[:80]!r}. Read ids that a search showed."
        call_key = json.dumps([pending.tool, _normalized(pending.arguments)], sort_keys=True, default=str)
        step = ToolStep(
            pending.tool,
            pending.arguments,
            self.round,
            tuple(passage.passage_id for passage in pending.passages),
            tuple(pending.scores),
            pending.problem,
            pending.is_bounded,
            call_key in self._earlier_calls,
        )
        self._earlier_calls.add(call_key)
        self._steps.append(step)
        self._passages |= {
            passage.passage_id: passage for passage in pending.passages if passage.passage_id not in self._passages
        }
        return self._result(pending)

    def _result(self, pending: _PendingCall) -> ToolResult:
        number_of = {passage_id: number for number, passage_id in enumerate(self._passages, 1)}
        numbers = tuple(number_of[passage.passage_id] for passage in pending.passages)
        note = f"(The first {pending.k}: a search shows no more.)\n\n" if pending.is_bounded else ""
        blocks = "\n\n".join(map(passage_block, numbers, pending.passages)) or "Nothing was found. Try other words."
        return ToolResult(pending.text or note + blocks, tuple(pending.passages), pending.problem, numbers)


def passage_block(number: int, passage: Passage, n_characters: int | None = None) -> str:
    """Return a passage as shown in results: number, id, text, and its title unless the text begins with it.

    A longer text is cut to `n_characters`; with 0, only number and id are shown.
    """
    head = f"[{number}] id: {passage.passage_id}"
    title = passage.title if not passage.text.lstrip().startswith(passage.title) else ""
    text = "\n".join(filter(None, (title, passage.text.strip())))
    if n_characters is None or len(text) <= n_characters:
        return f"{head}\n{text}"
    return f"{head}\n{text[:n_characters].rstrip()} [...]" if n_characters else f"{head} [...]"


def _begin_read(pending: _PendingCall, arguments: Mapping[str, Any]) -> None:
    passage_id = arguments.get("passage_id")
    if unknown := sorted(map(str, arguments.keys() - {"passage_id"})):
        _mark_malformed(pending, f"{READ} takes passage_id, and got {unknown[0][:40]!r}")
    elif not isinstance(passage_id, str) or not passage_id.strip():
        _mark_malformed(pending, "passage_id must be the id of a passage, a text")
    else:
        pending.passage_id = passage_id.strip()


def _mark_malformed(pending: _PendingCall, reason: str) -> None:
    pending.problem = CallProblem.MALFORMED
    pending.text = f"The call was not understood: {reason}."


def _parsed_arguments(arguments: Any) -> Mapping[str, Any] | None:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, Mapping) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < len(str(2**63)):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _single_line(text: str) -> str:
    """Return a text on one line, without characters that a file cannot contain."""
    return " ".join(text.replace("\0", " ").encode("utf-8", "replace").decode().split())


def _recordable(value: Any) -> Any:
    """Return an argument as recorded: numbers and short texts unchanged, otherwise the type."""
    if isinstance(value, str):
        return _single_line(value)[:_LONGEST_RECORDED]
    if value is None or (isinstance(value, (int, float)) and abs(value) < _LARGEST):
        return value
    return f"({type(value).__name__})"


def _normalized(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments without differences that do not change a search: case and whitespace."""
    return {name: " ".join(value.casefold().split()) if isinstance(value, str) else value
            for name, value in arguments.items()}  # fmt: skip
