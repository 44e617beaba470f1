"""Traces of a running system as rows: question, retrieved passages, answer, usage.

A trace becomes a row, and a session a conversation. Supported spans: OpenInference, the OpenTelemetry conventions for
generative AI, and Langfuse's own attributes. They are read as the OTLP file exporter writes them, as the SDK prints a
span, as Phoenix exports them, or as Langfuse's interface and API return traces and observations. A value that is
missing in the spans stays unknown: spans without documents make a row without `contexts`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, shortened_list
from ragtasks.files import Problems, json_lines, parse_json, parse_time
from ragtasks.results._own_rows import is_own_row, message_text

MAX_SPANS = 1_000_000
"""Maximum number of spans in a file, which are grouped by trace in memory."""
MAX_VALUES = 20_000

_SESSION_KEYS = ("session.id", "gen_ai.conversation.id", "langfuse.session.id")
_TYPE_KEYS = ("openinference.span.kind", "langfuse.observation.type", "gen_ai.operation.name")
_MODEL_TYPES = frozenset({"llm", "generation", "chat", "text_completion", "generate_content"})
_INPUT_KEYS = ("langfuse.trace.input", "input.value", "langfuse.observation.input", "gen_ai.input.messages")
_OUTPUT_KEYS = ("langfuse.trace.output", "output.value", "langfuse.observation.output", "gen_ai.output.messages")
_QUERY_KEYS = ("gen_ai.retrieval.query.text", "input.value", "langfuse.observation.input")
_QUESTION_KEYS = ("question", "query", "query_str", "user_input", "message", "input", "messages")
_ANSWER_KEYS = (*("answer", "response", "output", "result", "replies", "content", "messages"), "choices", "generations")
_USER = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "ai", "model"})
_QUESTION = (_INPUT_KEYS, _QUESTION_KEYS, _USER)
_ANSWER = (_OUTPUT_KEYS, _ANSWER_KEYS, _ASSISTANT)
_TOKENS = {
    "input_tokens": ("llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_tokens": ("llm.token_count.prompt_details.cache_read", "gen_ai.usage.cache_read.input_tokens"),
}
_COST_KEYS = ("llm.cost.total",)
"""Attribute with the cost in dollars, in OpenInference. Langfuse has its cost in `cost_details`."""
_RETRIEVER_TYPES = frozenset({"retriever", "retrieval"})
_STEP_TYPES = _RETRIEVER_TYPES | {"embedding", "embeddings", "reranker", "tool", "guardrail", "evaluator", "prompt"}
"""Types of spans that are a step of an answer even if their parent is missing."""
_JSON_PREFIXES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents", "langfuse.")
"""Prefixes of attributes whose values are kept as they are: their JSON is not flattened."""
_USED_PREFIXES = (
    *("openinference.span.kind", "input.value", "output.value", "session.id", "gen_ai.", "langfuse."),
    *("llm.input_messages", "llm.output_messages", "llm.token_count.", "llm.cost.", "retrieval.documents"),
    "reranker.output_documents",
)
_DOCUMENT = re.compile(r"(retrieval\.documents|reranker\.output_documents)\.(\d{1,9})\.document\.(\w+)")
_MESSAGE = re.compile(r"llm\.(input|output)_messages\.(\d{1,9})\.message\.(role|content|contents\.\d+\.\S*text)")
_LANGFUSE = {
    "type": "langfuse.observation.type",
    "input": "langfuse.observation.input",
    "output": "langfuse.observation.output",
    "usageDetails": "langfuse.observation.usage_details",
    "costDetails": "langfuse.observation.cost_details",
}
"""Key of an observation in Langfuse's JSON -> the attribute that Langfuse's SDK writes."""
_LANGFUSE_TRACE = {
    "input": "langfuse.trace.input",
    "output": "langfuse.trace.output",
    "sessionId": "langfuse.session.id",
}
"""Key of a trace in Langfuse's JSON -> the attribute that Langfuse's SDK writes."""
_MAX_SECONDS = 1e9
_MAX_DEPTH = 12
_MAX_LISTED = 3
_NEXT_STEP = "export the traces of your system's requests (docs/score-your-system.md, Traces)"


@dataclass(frozen=True, slots=True)
class Traces:
    """The rows of a file of spans."""

    rows: tuple[dict[str, Any], ...]
    """One row per trace with a question and an answer, in order of time. The keys are those of `ROW_KEYS`."""
    notes: tuple[str, ...]
    """Unreadable spans and omitted traces, as one line each."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The attributes of a span that are used."""

    trace_id: str
    span_id: str
    parent_id: str
    start: float | None
    end: float | None
    values: Mapping[str, Any]

    @property
    def span_type(self) -> str:
        return next((str(self.values[key]).lower() for key in _TYPE_KEYS if key in self.values), "")


def read_traces(file: Path) -> Traces:
    """Return the answers in a file of spans. Unreadable lines and traces without an answer are counted in the notes."""
    problems = Problems(file, "traces", f"fix these lines, or {_NEXT_STEP}")
    by_trace: dict[str, dict[tuple[str, int], _Span]] = defaultdict(dict)  # the inner key removes repeated lines
    unreadable: list[str] = []
    rows = ((f"{problems.unit} {number}", row) for number, line in json_lines(problems) for row in _span_rows(line))
    for n_spans, (location, row) in enumerate(rows, start=1):
        if n_spans > MAX_SPANS:
            raise _traces_error(file, f"more than {MAX_SPANS:,} spans", "export fewer spans per file")
        try:
            span = _span(row)
        except (ValueError, TypeError, OverflowError) as error:
            unreadable.append(f"{location} ({error})")
        else:
            by_trace[span.trace_id][span.span_id, hash(repr(span))] = span
    unreadable = [*problems.texts(), *unreadable]
    listed = f"{len(unreadable)} spans or lines are unreadable: {shortened_list(unreadable, _MAX_LISTED)}"
    traces = _rows_of_traces(by_trace)
    notes = (*([listed] if unreadable else []), *traces.notes)
    if not traces.rows:
        raise _traces_error(file, "; ".join(notes) or "no spans", _NEXT_STEP)
    return Traces(traces.rows, notes)


def _traces_error(file: Path, found: str, next_step: str) -> BenchmarkFileError:
    expected = "spans of OpenTelemetry or OpenInference, or traces of Langfuse, with questions and answers"
    return BenchmarkFileError("traces", where=str(file), expected=expected, found=found, next_step=next_step)


# Conversion of lines to spans. The five forms of a line are detected by their keys.


def _span_rows(row: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the spans of a line: a single span, a batch that an exporter wrote, or a trace of Langfuse."""
    if isinstance(row.get("observations"), list):
        yield from _langfuse_spans(row)
        return
    if "resourceSpans" not in row:
        yield _langfuse_span(row, str(row["traceId"]), {}) if _is_observation(row) else row
        return
    for resource in _objects(row["resourceSpans"]):
        for scope in _objects(resource.get("scopeSpans")):
            yield from _objects(scope.get("spans"))


def _is_observation(row: Mapping[str, Any]) -> bool:
    return all(isinstance(row.get(key), str) for key in ("id", "traceId", "type", "startTime"))


def _langfuse_spans(trace_row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the spans of a Langfuse trace: the trace itself if it has input or output, then its observations."""
    trace_id, start, latency = str(trace_row.get("id")), trace_row.get("timestamp"), trace_row.get("latency")
    start_seconds = _time(start, nanoseconds=False)
    end: dict[str, float] = {}
    if start_seconds is not None and isinstance(latency, (int, float)) and 0 <= latency < _MAX_SECONDS:
        end["end_time"] = (start_seconds + latency) * 1e3
    values = {name: trace_row[key] for key, name in _LANGFUSE_TRACE.items() if trace_row.get(key) is not None}
    is_first = any(trace_row.get(key) is not None for key in ("input", "output"))
    if is_first:
        yield {"trace_id": trace_id, "span_id": trace_id, "start_time": start, **end, "attributes": values}
    for observation in _objects(trace_row["observations"]):
        yield _langfuse_span(observation, trace_id, values, trace_id if is_first else "")


def _langfuse_span(
    observation: Mapping[str, Any], trace_id: str, trace_values: Mapping[str, Any], root_id: str = ""
) -> Mapping[str, Any]:
    """Return an observation of Langfuse as a span. `root_id` is the parent of observations without a parent."""
    values = {name: observation[key] for key, name in _LANGFUSE.items() if observation.get(key) is not None}
    session = {key: value for key, value in trace_values.items() if key in _SESSION_KEYS}
    return {
        "trace_id": trace_id,
        "span_id": observation.get("id"),
        "parent_id": observation.get("parentObservationId") or root_id,
        "start_time": observation.get("startTime"),
        "end_time": observation.get("endTime"),
        "attributes": {**values, **session},
    }


def is_span(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a span or a batch of spans, and not a row of the user's own."""
    if is_own_row(row) and not (isinstance(row.get("observations"), list) or _is_observation(row)):
        return False
    try:
        return any(_span(span) for span in _span_rows(row))
    except ValueError:
        return False


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [member for member in value if isinstance(member, Mapping)] if isinstance(value, list) else []


def _span(row: Any) -> _Span:
    if not isinstance(row, Mapping):
        raise ValueError("not a span")
    context = row.get("context")
    ids: Mapping[str, Any] = context if isinstance(context, Mapping) else {}
    trace_id = row.get("traceId") or row.get("trace_id") or row.get("context.trace_id") or ids.get("trace_id")
    span_id = row.get("spanId") or row.get("span_id") or row.get("context.span_id") or ids.get("span_id")
    parent_id = row.get("parentSpanId") or row.get("parent_span_id") or row.get("parent_id") or ""
    if not all(isinstance(id_value, str) for id_value in (trace_id, span_id, parent_id)):
        raise ValueError("not a span: ids of trace and span are missing")
    start = row.get("startTimeUnixNano") or row.get("start_time")
    end = row.get("endTimeUnixNano") or row.get("end_time")
    nanoseconds = "startTimeUnixNano" in row
    values = _values(row)
    if isinstance(row.get("span_kind"), str):  # a column of Phoenix
        values.setdefault("openinference.span.kind", row["span_kind"])
    ids_of_span = [str(id_value).removeprefix("0x") for id_value in (trace_id, span_id, parent_id)]
    return _Span(
        ids_of_span[0], ids_of_span[1], ids_of_span[2], _time(start, nanoseconds), _time(end, nanoseconds), values
    )


def _time(value: Any, nanoseconds: bool) -> float | None:
    """Return seconds since 1970, or None without a readable time."""
    if nanoseconds:
        is_number = isinstance(value, int) or (isinstance(value, str) and value.isdigit() and len(value) < 25)
        return int(value) / 1e9 if is_number else None
    if isinstance(value, (int, float)):  # data frames write milliseconds
        return value / 1e3
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value).timestamp()
    except ValueError:
        return None


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span and its events that are used. Nested keys are joined with dots."""
    values: dict[str, Any] = {}
    for holder in (row, *_objects(row.get("events"))):
        attributes = holder.get("attributes")
        if isinstance(attributes, list):  # OTLP: [{"key": ..., "value": {"stringValue": ...}}]
            attributes = {
                str(attribute.get("key")): _otlp_value(attribute.get("value")) for attribute in _objects(attributes)
            }
        if isinstance(attributes, Mapping):
            _add_flat(values, "", attributes)
    columns = {key[len("attributes.") :]: row[key] for key in row if key.startswith("attributes.")}
    _add_flat(values, "", columns)
    return values


def _otlp_value(value: Any, depth: int = 0) -> Any:
    """Return the plain value of a typed value in OTLP's JSON."""
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    if "arrayValue" in value or "kvlistValue" in value:
        inner = value.get("arrayValue") or value.get("kvlistValue")
        members = _objects(inner.get("values")) if isinstance(inner, Mapping) else []
        if "kvlistValue" in value:
            return {str(member.get("key")): _otlp_value(member.get("value"), depth + 1) for member in members}
        return [_otlp_value(member, depth + 1) for member in members]
    if isinstance(integer := value.get("intValue"), str):
        return int(integer) if re.fullmatch(r"-?\d{1,19}", integer) else None
    return next((value[key] for key in ("stringValue", "intValue", "doubleValue", "boolValue") if key in value), None)


def _add_flat(values: dict[str, Any], prefix: str, value: Any, depth: int = 0) -> None:
    """Add a value under its key, and nested values under keys with dots."""
    is_json = prefix.startswith(_JSON_PREFIXES)
    nested = {} if is_json else _members(value)
    if nested and depth <= _MAX_DEPTH:
        for key, member in nested.items():
            _add_flat(values, f"{prefix}.{key}" if prefix else str(key), member, depth + 1)
    elif value is not None and prefix.startswith(_USED_PREFIXES):
        if len(values) >= MAX_VALUES:
            raise ValueError(f"a span with more than {MAX_VALUES:,} values")
        values.setdefault(prefix, value)


def _members(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else {}


# Conversion of the spans of a trace to rows.


_NOTES = {
    "question": "traces without a question",
    "answer": "traces without an answer",
    "prompt": "questions come from the last message to the model, which may include passages, as no other span has one",
    "reply": "answers come from the last model reply, which may be a grader's, as the root span has none",
    "documents": "retrieved documents without text are left out",
    "results": "searches without documents and output count as empty",
    "ids": "spans share their id with another span of the trace; both are read",
    "roots": "further root spans with a question are left out",
}
_Counts = Mapping[str, Counter[str]]
"""Key of `_NOTES` -> occurrences in each trace."""


def _rows_of_traces(by_trace: Mapping[str, Mapping[Any, _Span]]) -> Traces:
    """Return the rows of all traces, in order of time."""
    counts = {name: Counter[str]() for name in _NOTES}
    ordered = [sorted(spans.values(), key=_begin) for spans in by_trace.values()]
    ordered.sort(key=lambda spans: _begin(spans[0]))
    rows = [row for spans in ordered for row in _rows(spans, counts)]
    notes = (f"{n.total()} {_NOTES[name]}: {shortened_list(list(+n), _MAX_LISTED)}" for name, n in counts.items() if +n)
    return Traces(tuple(rows), tuple(notes))


def _begin(span: _Span) -> float:
    return float("inf") if span.start is None else span.start


def _rows(spans: Sequence[_Span], counts: _Counts) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trace: one per root span with a question, or one for the complete trace."""
    trace_id = spans[0].trace_id
    counts["ids"][trace_id] += len(spans) - len({span.span_id for span in spans})
    root_of: dict[int, int] = {}
    for index, parent in _parents(spans).items():
        root_of[index] = index if parent is None else root_of[parent]
    trees: dict[int, list[_Span]] = {index: [] for index in sorted({*root_of.values()})}
    for index, span in enumerate(spans):
        trees[root_of[index]].append(span)
    candidates = [index for index in trees if spans[index].span_type not in _STEP_TYPES]
    with_question = [index for index in candidates if (_text(spans[index], (), *_QUESTION)[0] or "").strip()]
    complete = [index for index in with_question if spans[index].span_type not in _MODEL_TYPES]
    # Spans whose parent is missing belong to the answer of a root span, if a root span has a question.
    roots = [index for index in complete if not spans[index].parent_id] or complete or [min(trees)]
    counts["roots"][trace_id] += max(0, len(with_question) - len(roots))
    for number, index in enumerate(roots, start=1):
        if row := _row(spans[index], spans if len(roots) == 1 else trees[index], counts):
            yield row if len(roots) == 1 else {**row, "id": f"{trace_id}-{number}"}


def _row(root: _Span, spans: Sequence[_Span], counts: _Counts) -> dict[str, Any] | None:
    """Return the row of a root span, or None without a question or an answer. The missing part is counted."""
    retrievers = _outermost(spans, _RETRIEVER_TYPES)
    n_empty = sum(map(_has_no_results, retrievers))
    is_nested = len(retrievers) < sum(span.span_type in _RETRIEVER_TYPES for span in spans)  # inner ones may have them
    counts["results"][root.trace_id] += 0 if is_nested else n_empty
    models = _outermost(spans, _MODEL_TYPES)
    question, question_of_model = _text(root, models[-1:], *_QUESTION)
    answer, answer_of_model = _text(root, models[-1:], *_ANSWER)
    if question is None or not question.strip() or answer is None:
        counts["answer" if question and question.strip() else "question"][root.trace_id] += 1
        return None
    counts["prompt"][root.trace_id] += question_of_model
    counts["reply"][root.trace_id] += answer_of_model and root.span_type not in _MODEL_TYPES
    row: dict[str, Any] = {"id": root.trace_id, "question": question, "answer": answer}
    contexts = _contexts(root.trace_id, spans, counts["documents"])
    searches = None if is_nested and n_empty else _searches(retrievers)
    session = next((span.values[key] for key in _SESSION_KEYS for span in spans if span.values.get(key)), None)
    return {
        **row,
        **({} if session is None else {"conversation_id": str(session)}),
        **({} if contexts is None else {"contexts": contexts}),
        **({} if searches is None else {"searches": searches}),
        **_seconds("seconds", [root]),
        **_seconds("retriever_seconds", retrievers),
        **_tokens(models),
        **_cost(models),
    }


def _text(
    root: _Span, models: Sequence[_Span], keys: Sequence[str], inner: Sequence[str], roles: frozenset[str]
) -> tuple[str | None, bool]:
    """Return (text, whether it comes from a model call), of the root span or else of the last model call."""
    for span in (root, *models):
        is_model = span.span_type in _MODEL_TYPES
        from_values = [_text_in(span.values.get(key), inner, roles) for key in keys]
        from_messages = [_last(_messages(span, "input" if roles is _USER else "output"), roles)]
        texts = [*from_messages, *from_values] if is_model else [*from_values, *from_messages]
        if (text := next((candidate for candidate in texts if candidate is not None), None)) is not None:
            return text, is_model
    return None, False


def _text_in(value: Any, keys: Sequence[str], roles: frozenset[str], depth: int = 0) -> str | None:
    """Return the text of an input or output: the value itself, or the text under a key or role in its JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["} and depth < 3:
        try:
            return _text_in(parse_json(value.encode()), keys, roles, depth + 1)
        except ValueError:
            return value
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        inner = (_text_in(value[key], keys, roles, depth + 1) for key in keys if key in value)
        direct = next((text for text in inner if text is not None), None)
        direct = _last([value], roles) if direct is None else direct
        return _only_text(value, keys, roles, depth) if direct is None else direct
    text = _last(value, roles) if isinstance(value, list) else None
    is_nested = isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)) and depth < _MAX_DEPTH
    return _text_in(value[0], keys, roles, depth + 1) if is_nested and text is None else text


def _only_text(value: Mapping[str, Any], keys: Sequence[str], roles: frozenset[str], depth: int) -> str | None:
    """Return the text in the members of an object, such as the parts of a pipeline, or None if their texts differ."""
    parts = [member for member in value.values() if isinstance(member, Mapping)]
    texts = {text for member in parts if (text := _text_in(member, keys, roles, depth + 1)) is not None}
    return texts.pop() if len(texts) == 1 else None


def _last(messages: Sequence[Any], roles: frozenset[str]) -> str | None:
    """Return the text of the last message with one of the roles. A reply before a user message is no answer."""
    for message in map(_unwrapped, reversed(messages)):
        parts, name = message.get("parts"), message.get("id")
        role_value = message.get("role") or (name[-1] if name and isinstance(name, list) else message.get("type"))
        role = str(role_value).lower().removesuffix("chunk").removesuffix("message")
        texts = [str(part["content"]) for part in _objects(parts) if isinstance(part.get("content"), str)]
        text = message_text(message.get("content")) if parts is None else "\n".join(texts) or None
        if text and role in roles:
            return text
        if text and role in _USER:
            return None
    return None


def _unwrapped(message: Any) -> Mapping[str, Any]:
    """Return a message as an object, from LangChain's serialized forms, (role, text) pairs or choices of a reply."""
    if isinstance(message, list) and len(message) == 2:
        return {"role": message[0], "content": message[1]}
    fields = message if isinstance(message, Mapping) else {}
    for key in ("message", "data", "kwargs"):
        fields = {**fields, **fields[key]} if isinstance(fields.get(key), Mapping) else fields
    return fields


def _messages(span: _Span, side: str) -> list[dict[str, Any]]:
    by_number: dict[int, dict[str, Any]] = defaultdict(dict)
    for key, value in span.values.items():
        if (match := _MESSAGE.fullmatch(key)) and match[1] == side:
            name = match[3].partition(".")[0].removesuffix("s")
            by_number[int(match[2])].setdefault(name, value)
    return [by_number[number] for number in sorted(by_number)]


def _contexts(trace_id: str, spans: Iterable[_Span], without_text: Counter[str]) -> list[dict[str, Any]] | None:
    """Return the passages of the answer: those of the last reranker, or else all retrieved ones. None if unknown."""
    by_key: dict[str, list[list[dict[str, Any]]]] = {"retrieval.documents": [], "reranker.output_documents": []}
    for span in spans:
        for name, documents in _documents(span).items():
            by_key[name].append(documents)
    lists = by_key["reranker.output_documents"][-1:] or by_key["retrieval.documents"]
    unique: dict[tuple[str, str], dict[str, Any]] = {}
    n_without_text = 0
    for document in (document for documents in lists for document in documents):
        if _has_text(document):
            unique.setdefault((str(document.get("id", "")), document["text"]), document)
        else:
            n_without_text += 1
    if n_without_text:
        without_text[trace_id] += n_without_text
    return list(unique.values()) if unique or (lists and not n_without_text) else None


def _searches(retrievers: Sequence[_Span]) -> list[dict[str, Any]] | None:
    """Return query and passages of each search; None without any, or if a search has no query or passage texts."""
    searches = []
    for span in retrievers:
        queries = (_text_in(span.values.get(key), _QUESTION_KEYS, _USER) for key in _QUERY_KEYS)
        query = next((candidate for candidate in queries if candidate and candidate.strip()), None)
        documents = _documents(span).get("retrieval.documents")
        if query is None or documents is None or not all(_has_text(document) for document in documents):
            return None
        searches.append({"query": query, "passages": documents})
    return searches or None


def _has_no_results(span: _Span) -> bool:
    """Return whether a retriever span has a query, and neither documents nor an output."""
    has_any = any(key in _OUTPUT_KEYS or "retrieval.documents" in key for key in span.values)
    return span.span_type in _RETRIEVER_TYPES and not has_any and any(span.values.get(key) for key in _QUERY_KEYS)


def _has_text(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("text"), str) and bool(document["text"].strip())


def _documents(span: _Span) -> dict[str, list[dict[str, Any]]]:
    """Return attribute -> documents of a span, in their order."""
    by_key: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in span.values.items():
        if match := _DOCUMENT.fullmatch(key):
            by_key.setdefault(match[1], {}).setdefault(int(match[2]), {})[match[3]] = value
    named = {name: [documents[number] for number in sorted(documents)] for name, documents in by_key.items()}
    named |= {name: [] for name in ("retrieval.documents", "reranker.output_documents") if span.values.get(name) == []}
    if "retrieval.documents" not in named:
        listing = span.values.get("gen_ai.retrieval.documents")
        if listing is None and span.span_type == "retriever":
            listing = span.values.get("langfuse.observation.output")
        if listing is None and span.span_type in _RETRIEVER_TYPES:
            listing = [] if _has_no_results(span) or _listed(span.values.get("output.value")) == [] else None
        if (documents := _listed(listing)) is not None:
            named["retrieval.documents"] = documents
    return {name: [_document(document) for document in documents] for name, documents in named.items()}


def _listed(value: Any) -> list[dict[str, Any]] | None:
    """Return the documents of a list or its JSON, whose members may be texts. None if it is not a list."""
    try:
        members = parse_json(value.encode()) if isinstance(value, str) else value
    except ValueError:
        return None
    members = members.get("documents") if isinstance(members, Mapping) else members
    if not isinstance(members, list):
        return None
    return [
        {"text": member} if isinstance(member, str) else dict(member)
        for member in members
        if isinstance(member, (str, dict))
    ]


def _document(fields: Mapping[str, Any]) -> dict[str, Any]:
    text = next((fields[key] for key in ("content", "text", "page_content") if isinstance(fields.get(key), str)), None)
    names = {"id": fields.get("id"), "title": fields.get("name") or fields.get("title"), "url": fields.get("url")}
    return {**{key: str(value) for key, value in names.items() if value not in (None, "")}, "text": text}


def _outermost(spans: Sequence[_Span], span_types: frozenset[str]) -> list[_Span]:
    """Return the outermost spans of some types. Two instrumentations may log the same call, one inside the other."""
    is_inside: dict[int, bool] = {}
    for index, parent in _parents(spans).items():
        is_inside[index] = parent is not None and (is_inside[parent] or spans[parent].span_type in span_types)
    return [span for index, span in enumerate(spans) if span.span_type in span_types and not is_inside[index]]


def _parents(spans: Sequence[_Span]) -> dict[int, int | None]:
    """Return span index -> parent index, parents first. None without a parent, and for the first span of a cycle."""
    index_of = {span.span_id: index for index, span in reversed([*enumerate(spans)])}
    parents: dict[int, int | None] = {}
    for child in range(len(spans)):
        path: dict[int, int | None] = {}
        current: int | None = child
        while current is not None and current not in parents and current not in path:
            path[current] = index_of.get(spans[current].parent_id)
            current = path[current]
        if current in path:
            parents[current] = None
        for ancestor in reversed(path):
            parents.setdefault(ancestor, path[ancestor])
    return parents


def _seconds(name: str, spans: Sequence[_Span]) -> dict[str, float]:
    """Return the total duration of the spans in seconds, or {} if a start or end is missing."""
    lengths = [-1.0 if span.start is None or span.end is None else span.end - span.start for span in spans]
    return {name: round(math.fsum(lengths), 6)} if lengths and min(lengths) >= 0 else {}


def _tokens(models: Sequence[_Span]) -> dict[str, int]:
    """Return the total tokens of the model calls. A total is left out if a call has no count."""
    totals = {}
    for name, keys in _TOKENS.items():
        amounts = [_amount(span, "usage", name.removesuffix("_tokens"), keys) for span in models]
        if amounts and None not in amounts:
            totals[name] = sum(int(amount) for amount in amounts if amount is not None)
    if totals.get("cached_tokens", 0) > totals.get("input_tokens", 0):  # some servers leave cached tokens out
        del totals["cached_tokens"]
    return totals


def _cost(models: Sequence[_Span]) -> dict[str, Any]:
    """Return the total cost of the model calls, or {} if a call has no cost."""
    amounts = [_amount(span, "cost", "total", _COST_KEYS) for span in models]
    if not amounts or None in amounts:
        return {}
    return {"cost": math.fsum(amount for amount in amounts if amount is not None), "currency": "USD"}


def _amount(span: _Span, measure: str, name: str, keys: Sequence[str]) -> float | None:
    """Return an amount under one of the keys, or else in Langfuse's details of usage or cost."""
    details_value = span.values.get(f"langfuse.observation.{measure}_details")
    try:
        details = parse_json(details_value.encode()) if isinstance(details_value, str) else details_value
    except ValueError:
        details = None
    own = details.get(name) if isinstance(details, Mapping) else None
    for value in (*(span.values.get(key) for key in keys), own):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
            return value
    return None
