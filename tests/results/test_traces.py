"""Traces as rows: spans that the real SDKs wrote, every form of a line, and hostile files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import pytest
from openinference.instrumentation import TracerProvider as OpenInferenceProvider
from openinference.instrumentation import using_session
from openinference.semconv.trace import DocumentAttributes, MessageAttributes, RerankerAttributes, SpanAttributes
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from ragtasks.errors import BenchmarkFileError
from ragtasks.results import is_span, read_traces
from ragtasks.results._traces import Traces
from tests._messages import raises

TURNS = [
    ("How long may I keep a book?", "Three weeks.", ["Books are lent for three weeks.", "The library opens at nine."]),
    ("And may I renew it?", "Yes, twice.", ["A loan can be renewed twice."]),
]


def exporter(kind: str, stream: TextIO) -> Any:
    if kind == "otlp":
        return FileSpanExporter(stream=stream)
    return ConsoleSpanExporter(out=stream, formatter=lambda span: f"{span.to_json(indent=None)}\n")


@pytest.fixture(params=["otlp", "console"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Any], Path]]:
    """Return a function that has a provider's spans written by an exporter of the SDK."""
    file = tmp_path / "spans.jsonl"
    with file.open("w", encoding="utf-8", buffering=1) as stream:

        def written(provider: Any) -> Path:
            provider.add_span_processor(SimpleSpanProcessor(exporter(request.param, stream)))
            return file

        yield written


def openinference(tracer: Any, session: str, turns: list[tuple[str, str, list[str]]] = TURNS) -> None:
    """Write the spans of a pipeline's chain, retriever and model with the helpers of OpenInference."""
    for question, answer, texts in turns:
        with using_session(session), tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
            chain.set_input(question)
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as retriever:
                for number, text in enumerate(texts):
                    prefix = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{number}."
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_ID, f"doc-{number}")
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_CONTENT, text)
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_SCORE, 1.0 / (number + 1))
            with tracer.start_as_current_span("model", openinference_span_kind="llm") as model:
                model.set_attribute(SpanAttributes.LLM_TOKEN_COUNT_PROMPT, 100)
                model.set_attribute(SpanAttributes.LLM_TOKEN_COUNT_COMPLETION, 10)
                model.set_attribute(SpanAttributes.INPUT_VALUE, f"Answer by {texts}: {question}")
            chain.set_output(answer)


def test_openinference_spans_of_the_real_sdk_are_rows(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    openinference(provider.get_tracer("test"), "session-1")
    found = read_traces(file)
    assert not found.notes
    assert [(row["question"], row["answer"]) for row in found.rows] == [turn[:2] for turn in TURNS]
    first, second = found.rows
    assert first["contexts"] == [
        {"id": "doc-0", "text": "Books are lent for three weeks."},
        {"id": "doc-1", "text": "The library opens at nine."},
    ]
    assert {row["conversation_id"] for row in found.rows} == {"session-1"}
    assert first["id"] != second["id"]
    assert (first["input_tokens"], first["output_tokens"]) == (100, 10)
    assert 0 < first["seconds"] < 60


def test_each_retriever_call_with_a_query_is_a_search(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    found = {"How long is a loan?": ["Books are lent for three weeks."], "renewal of books": []}
    for is_said in (True, False):
        with tracer.start_as_current_span("agent", openinference_span_kind="agent") as agent:
            agent.set_input("How long may I keep a book?")
            for query, texts in found.items():
                with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as retriever:
                    if is_said or texts:
                        retriever.set_input(query)
                    retriever.set_attribute(
                        "gen_ai.retrieval.documents", json.dumps([{"content": one} for one in texts])
                    )
            agent.set_output("Three weeks.")
    reported, unsaid = read_traces(file).rows
    assert reported["searches"] == [
        {"query": query, "passages": [{"text": one} for one in found[query]]} for query in found
    ]
    assert "searches" not in unsaid
    assert reported["contexts"] == unsaid["contexts"] == [{"text": "Books are lent for three weeks."}]


def test_spans_of_the_genai_conventions_are_rows(write: Callable[[Any], Path]) -> None:
    provider = TracerProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    asked = [{"role": "user", "parts": [{"type": "text", "content": TURNS[0][0]}]}]
    reported = [{"role": "assistant", "parts": [{"type": "text", "content": TURNS[0][1]}], "finish_reason": "stop"}]
    documents = [{"id": "d1", "score": 0.9, "content": TURNS[0][2][0]}, {"id": "d2", "score": 0.1}]
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c-7"}
    messages = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(reported)}
    with tracer.start_as_current_span("invoke_agent", attributes={**agent, **messages}):
        retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(documents)}
        with tracer.start_as_current_span("retrieval", attributes=retrieval):
            pass
        for tokens in (5, 7):
            usage = {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 1}
            with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat", **usage}):
                pass
    found = read_traces(file)
    (row,) = found.rows
    assert (row["question"], row["answer"], row["conversation_id"]) == (*TURNS[0][:2], "c-7")
    assert row["contexts"] == [{"id": "d1", "text": TURNS[0][2][0]}]
    assert (row["input_tokens"], row["output_tokens"]) == (12, 2)
    assert found.notes == (f"1 retrieved documents without text are left out: {row['id']}",)


def test_langfuse_attributes_are_read(write: Callable[[Any], Path]) -> None:
    provider = TracerProvider()
    file = write(provider)
    tracer = provider.get_tracer("langfuse-sdk")
    root = {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": json.dumps({"question": TURNS[0][0]}),
        "langfuse.observation.output": json.dumps({"answer": TURNS[0][1]}),
        "session.id": "s",
    }
    with tracer.start_as_current_span("rag", attributes=root):
        documents = json.dumps([{"page_content": TURNS[0][2][0]}, TURNS[0][2][1]])
        retriever = {"langfuse.observation.type": "retriever", "langfuse.observation.output": documents}
        with tracer.start_as_current_span("retriever", attributes=retriever):
            pass
        usage = json.dumps({"input": 30, "output": 4, "total": 34})
        generation = {"langfuse.observation.type": "generation", "langfuse.observation.usage_details": usage}
        with tracer.start_as_current_span("llm", attributes=generation):
            pass
    (row,) = read_traces(file).rows
    assert (row["question"], row["answer"], row["conversation_id"]) == (*TURNS[0][:2], "s")
    assert [passage["text"] for passage in row["contexts"]] == TURNS[0][2]
    assert (row["input_tokens"], row["output_tokens"]) == (30, 4)


def test_the_rerankers_passages_are_the_contexts(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
        chain.set_input("q")
        with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
            for number in range(12):
                span.set_attribute(f"retrieval.documents.{number}.document.content", f"text {number}")
        with tracer.start_as_current_span("rerank", openinference_span_kind="reranker") as span:
            for number, text in enumerate(("text 11", "text 2")):
                span.set_attribute(f"{RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS}.{number}.document.content", text)
        chain.set_output("a")
    (row,) = read_traces(file).rows
    assert row["contexts"] == [{"text": "text 11"}, {"text": "text 2"}]


def test_a_question_from_a_model_call_alone_is_noted(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    roles = (("input", 0, "system", "Be short."), ("input", 1, "user", "q"), ("output", 0, "assistant", "a"))
    with (
        tracer.start_as_current_span("rag", openinference_span_kind="chain"),
        tracer.start_as_current_span("model", openinference_span_kind="llm") as span,
    ):
        for side, number, role, text in roles:
            prefix = f"llm.{side}_messages.{number}."
            span.set_attribute(prefix + MessageAttributes.MESSAGE_ROLE, role)
            span.set_attribute(prefix + MessageAttributes.MESSAGE_CONTENT, text)
    found = read_traces(file)
    (row,) = found.rows
    assert (row["question"], row["answer"]) == ("q", "a")
    assert not {"contexts", "conversation_id", "input_tokens"} & row.keys()  # the spans do not contain them
    assert found.notes[0].startswith("1 questions come from the last message to the model")


def test_traces_without_question_or_answer_are_counted(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    openinference(tracer, "s", TURNS[:1])
    with tracer.start_as_current_span("rag", openinference_span_kind="chain") as span:
        span.set_input("a question that failed")
    with tracer.start_as_current_span("embed", openinference_span_kind="embedding"):
        pass
    found = read_traces(file)
    assert len(found.rows) == 1
    assert [note.partition(":")[0] for note in found.notes] == [
        "1 traces without a question",
        "1 traces without an answer",
    ]


# Lines by hand, for formats whose SDK is not installed here.


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def span(trace: str = "t", own: str = "s", parent: str | None = None, **attributes: Any) -> dict[str, Any]:
    return {"context": {"trace_id": trace, "span_id": own}, "parent_id": parent, "attributes": attributes}


SPAN = span(**{"input.value": "q", "output.value": "a"})


def read(tmp_path: Path, *rows: object) -> Traces:
    return read_traces(lines(tmp_path / "spans.jsonl", *rows))


def test_columns_of_a_data_frame_of_phoenix_are_read(tmp_path: Path) -> None:
    number = {"context.trace_id": "t", "start_time": "2026-01-01T10:00:00Z", "end_time": "2026-01-01T10:00:01.5Z"}
    root = {**number, "context.span_id": "a", "parent_id": None, "span_kind": "CHAIN"}
    documents = [{"document.content": "x", "document.id": "7", "document.score": 0.5}]
    retriever = {**number, "context.span_id": "b", "parent_id": "a", "attributes.retrieval.documents": documents}
    (row,) = read(
        tmp_path,
        {**root, "attributes.input.value": "q", "attributes.output.value": "a"},
        {**retriever, "span_kind": "RETRIEVER"},
    ).rows
    assert row.pop("retriever_seconds") == row["seconds"]  # its only span is a retriever's
    assert row == {"id": "t", "question": "q", "answer": "a", "contexts": [{"id": "7", "text": "x"}], "seconds": 1.5}


def test_a_search_without_results_differs_from_missing_documents(tmp_path: Path) -> None:
    empty, silent = (
        read(tmp_path, SPAN, span(own="r", parent="s", **attributes)).rows[0]
        for attributes in (
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": "[]"},
            {"openinference.span.kind": "RETRIEVER"},
        )
    )
    assert empty["contexts"] == []
    assert "contexts" not in silent


def test_documents_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    numbered = {f"retrieval.documents.{number}.document.content": f"text {number}" for number in (10, 2, 0)}
    (row,) = read(tmp_path, SPAN, span(own="r", parent="s", **numbered)).rows
    assert [passage["text"] for passage in row["contexts"]] == ["text 0", "text 2", "text 10"]


def test_different_texts_of_pipeline_parts_give_no_question(tmp_path: Path) -> None:
    parts = {"data": {"retriever": {"query": "a rewritten question"}, "prompt": {"question": "the question"}}}
    alike = {"data": {"retriever": {"query": "the question"}, "prompt": {"question": "the question"}}}
    answered = {"output.value": json.dumps({"model": {"replies": ["a"]}, "retriever": {"documents": []}})}
    (row,) = read(tmp_path, span(**answered, **{"input.value": json.dumps(alike)})).rows
    assert (row["question"], row["answer"]) == ("the question", "a")
    with raises(BenchmarkFileError):
        read(tmp_path, span(**answered, **{"input.value": json.dumps(parts)}))


def test_tokens_are_unknown_if_any_call_has_no_count(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "LLM"}
    first = span(own="1", parent="s", **kind, **{"llm.token_count.prompt": 3})
    inner = span(own="2", parent="1", **kind, **{"llm.token_count.prompt": 3})  # the same call, written twice
    silent = span(own="3", parent="s", **kind)
    assert read(tmp_path, SPAN, first, inner).rows[0]["input_tokens"] == 3
    assert "input_tokens" not in read(tmp_path, SPAN, first, inner, silent).rows[0]


def test_bad_lines_are_counted_and_named(tmp_path: Path) -> None:
    result = read(tmp_path, SPAN, "{", [], {"attributes": {}}, {"context": {"trace_id": 5, "span_id": "x"}}, "")
    assert len(result.rows) == 1
    (note,) = result.notes
    assert note.startswith("4 spans or lines are unreadable: line 2: expected one JSON object, found")
    assert note.endswith("and 1 more")


LANGFUSE = {
    "id": "t1",
    "timestamp": "2026-03-01T10:00:00.000Z",
    "sessionId": "s1",
    "input": {"question": "When?"},
    "output": {"answer": "At nine."},
    "latency": 3.0,
}
OBSERVATIONS = [
    {
        "id": "o1",
        "traceId": "t1",
        "type": "RETRIEVER",
        "startTime": "2026-03-01T10:00:00.000Z",
        "endTime": "2026-03-01T10:00:01.000Z",
        "input": "opening hours",
        "output": [{"page_content": "It opens at nine.", "metadata": {}}],
    },
    {
        "id": "o2",
        "traceId": "t1",
        "type": "GENERATION",
        "startTime": "2026-03-01T10:00:01.000Z",
        "input": [{"role": "user", "content": "It opens at nine. When?"}],
        "output": {"role": "assistant", "content": "At nine."},
        "usageDetails": {"input": 100, "output": 9},
        "costDetails": {"total": 0.3},
    },
]
USED = {
    "contexts": [{"text": "It opens at nine."}],
    "searches": [{"query": "opening hours", "passages": [{"text": "It opens at nine."}]}],
    "retriever_seconds": 1.0,
    **{"input_tokens": 100, "output_tokens": 9, "cost": 0.3, "currency": "USD"},
}


def test_a_trace_of_langfuse_as_json_is_a_row(tmp_path: Path) -> None:
    complete = {**LANGFUSE, "observations": OBSERVATIONS}
    assert is_span(complete)
    asked = {"id": "t1", "question": "When?", "answer": "At nine.", "conversation_id": "s1", "seconds": 3.0}
    assert read(tmp_path, json.dumps(complete, indent=1)).rows == ({**asked, **USED},)
    # A list of traces names observations by id.
    (row,) = read(tmp_path, json.dumps({"data": [{**LANGFUSE, "observations": ["o1", "o2"]}], "meta": {}})).rows
    assert row == asked


def test_observations_of_langfuse_are_spans_without_their_trace(tmp_path: Path) -> None:
    first = {"question": "When?"}, {"answer": "At nine."}
    chain = {**OBSERVATIONS[0], "id": "o0", "type": "SPAN", "input": first[0], "output": first[1]}
    inner = [{**item, "parentObservationId": "o0"} for item in OBSERVATIONS]
    row = {"id": "t1", "question": "When?", "answer": "At nine.", "seconds": 1.0, **USED}
    assert is_span(chain)
    assert read(tmp_path, json.dumps({"data": [chain, *inner]})).rows == (row,)
    silent = {**LANGFUSE, "input": None, "output": None, "observations": [chain, *inner]}
    assert read(tmp_path, silent).rows == ({**row, "conversation_id": "s1"},)


def test_a_users_row_with_ids_of_a_trace_is_not_a_span() -> None:
    assert not is_span({"question": "q", "answer": "a", "trace_id": "t", "span_id": "s"})


HOSTILE: list[object] = [
    span(own="h", **{"output.value": ["a"] * 30_000}),
    span(own="h", **{"input.value": '{"question": ' * 500}),
    span(own="h", parent="h", **{"openinference.span.kind": "LLM", "llm.token_count.prompt": 1e308}),
    span(own="h", **{"retrieval.documents": {"999999999": {"document": {"content": "x"}}, "x": 1}}),
    {**span(own="h"), "start_time": 10**400},
    {**span(own="h"), "startTimeUnixNano": "9" * 5_000, "endTimeUnixNano": [1]},
    {"resourceSpans": [{"scopeSpans": [{"spans": "x"}, 7]}, 5]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t", "spanId": "o", "attributes": [{"key": 1}, 4]}]}]}]},
    "[" * 50_000,
    span(own="h", **{"output.value": '"\\ud800"', "session.id": {"a": [1]}}),
]


@pytest.mark.parametrize("row", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_span_does_not_affect_other_spans(tmp_path: Path, row: object) -> None:
    found = read(tmp_path, SPAN, row)
    assert [(item["question"], item["answer"]) for item in found.rows] == [("q", "a")]
    assert len(str(found.notes)) < 1_000


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["nonsense"], "1 spans or lines are unreadable: line 1"),
        ([span(**{"input.value": "q"})], "1 traces without an answer: t"),
        ([{"question": "q", "answer": "a"}], "ids of trace and span are missing"),
    ],
)
def test_a_file_without_answers_is_one_error(tmp_path: Path, rows: list[object], said: str) -> None:
    with pytest.raises(BenchmarkFileError, match=r"docs/score-your-system\.md") as error:
        read(tmp_path, *rows)
    assert said in str(error.value)


def test_too_many_spans_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.results._traces.MAX_SPANS", 2)
    with pytest.raises(BenchmarkFileError, match="more than 2 spans"):
        read(tmp_path, SPAN, span(own="2"), span(own="3"))


def timed(row: dict[str, Any], start: object, end: object) -> dict[str, Any]:
    return {**row, "start_time": start, "end_time": end}


def asked_and_answered(trace: str, question: str = "q", **further: Any) -> dict[str, Any]:
    return span(trace, **{"input.value": question, "output.value": "a", **further})


def test_rows_are_in_order_of_time_and_rows_without_a_time_are_last(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        asked_and_answered("never"),
        timed(asked_and_answered("late"), "2026-01-01T10:00:02Z", None),
        timed(asked_and_answered("early"), "2026-01-01T10:00:01+00:00", None),
    )
    assert [row["id"] for row in found.rows] == ["early", "late", "never"]
    assert not any("seconds" in row for row in found.rows)


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:01.25Z", 1.25),
        (1_767_261_600_000, 1_767_261_601_250, 1.25),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z", 0.0),
        ("2026-01-01T10:00:01Z", "2026-01-01T10:00:00Z", None),
        ("noon", "2026-01-01T10:00:00Z", None),
        (["x"], "2026-01-01T10:00:00Z", None),
    ],
)
def test_the_duration_of_an_answer_is_that_of_its_outermost_span(
    tmp_path: Path, start: object, end: object, seconds: float | None
) -> None:
    inner = timed(span(own="i", parent="s"), "2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z")
    (row,) = read(tmp_path, inner, timed(asked_and_answered("t"), start, end)).rows
    assert row.get("seconds") == seconds


@pytest.mark.parametrize(("start", "end"), [("1000000000", "3500000000"), (1_000_000_000, 3_500_000_000)])
def test_spans_of_otlp_are_timed_in_nanoseconds(tmp_path: Path, start: object, end: object) -> None:
    values = [{"key": key, "value": {"stringValue": "x"}} for key in ("input.value", "output.value")]
    one = {"traceId": "0xt", "spanId": "0xs", "startTimeUnixNano": start, "endTimeUnixNano": end, "attributes": values}
    result = read(tmp_path, {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]})
    assert result.rows == ({"id": "t", "question": "x", "answer": "x", "seconds": 2.5},)


def test_a_span_whose_parent_is_missing_is_outermost(tmp_path: Path) -> None:
    inner = span(own="i", parent="s", **{"input.value": "inner q", "output.value": "inner a"})
    outer = {**asked_and_answered("t", "outer q"), "parent_id": "0xof-another-service"}
    assert [row["question"] for row in read(tmp_path, inner, outer).rows] == ["outer q"]


def test_spans_of_otlp_name_their_parents_too(tmp_path: Path) -> None:
    def of_otlp(own: str, parent: str, text: str) -> dict[str, Any]:
        values = [{"key": key, "value": {"stringValue": text}} for key in ("input.value", "output.value")]
        return {"traceId": "t", "spanId": own, "parentSpanId": parent, "attributes": values}

    assert [row["question"] for row in read(tmp_path, of_otlp("i", "s", "inner"), of_otlp("s", "", "outer")).rows] == [
        "outer"
    ]


def test_the_session_may_be_in_any_span(tmp_path: Path) -> None:
    for key in ("session.id", "gen_ai.conversation.id", "langfuse.session.id"):
        (row,) = read(tmp_path, asked_and_answered("t", **{key: ""}), span(own="i", parent="s", **{key: 7})).rows
        assert row["conversation_id"] == "7"


def question_in(tmp_path: Path, value: object, **further: Any) -> str:
    key = "input.value" if isinstance(value, str) else "langfuse.observation.input"
    (row,) = read(tmp_path, span(**{key: value, "output.value": "a", **further})).rows
    return str(row["question"])


CHAT = [
    {"role": "user", "content": "first?"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": [{"type": "text", "text": "last?"}]},
    {"role": "user", "content": ""},
]


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("plain?", "plain?"),
        (" {not json", " {not json"),
        ('{"question": "q?", "messages": []}', "q?"),
        (' \n{"question": "q?"}', "q?"),
        ({"user_input": "q?"}, "q?"),
        ({"query_str": {"message": "deep?"}}, "deep?"),
        (["only?"], "only?"),
        ({"messages": CHAT}, "last?"),
        (json.dumps(CHAT), "last?"),
        ([{"type": "human", "content": "typed?"}], "typed?"),
        ([{"role": "USER", "parts": [{"content": "a"}, {"x": 1}, {"content": "b"}]}], "a\nb"),
        ('{"input": "{\\"input\\": \\"in JSON in JSON?\\"}"}', "in JSON in JSON?"),
    ],
)
def test_a_question_is_found_in_every_usual_form(tmp_path: Path, value: object, question: str) -> None:
    assert question_in(tmp_path, value) == question


def test_the_trace_has_precedence_over_its_parts(tmp_path: Path) -> None:
    complete = {"langfuse.trace.input": "trace?", "langfuse.observation.input": "observation?"}
    assert question_in(tmp_path, "value?", **complete) == "trace?"
    model = span(own="m", parent="s", **{"openinference.span.kind": "LLM", "input.value": "model?"})
    result = read(tmp_path, asked_and_answered("t", "value?"), model)
    assert result.rows[0]["question"] == "value?"
    assert result.notes == ()


def test_of_several_calls_of_a_model_the_last_one_answers(tmp_path: Path) -> None:
    def call(name: str, second: int, **attributes: Any) -> dict[str, Any]:
        model = span(own=name, parent="s", **{"openinference.span.kind": "LLM", **attributes})
        return timed(model, f"2026-01-01T10:00:0{second}Z", None)

    root = timed(span(**{"input.value": "q"}), "2026-01-01T10:00:00Z", None)
    messages = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "an answer",
        "output.value": '{"raw": "completion"}',
    }
    late, early = call("late", 2, **messages), call("early", 1, **{"output.value": "a rewritten question"})
    assert read(tmp_path, late, early, root).rows[0]["answer"] == "an answer"


def test_attributes_of_events_count_too(tmp_path: Path) -> None:
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": {"output.value": "of the event"}}
    row = {**span(**{"input.value": "q"}), "events": [event, 5]}
    assert read(tmp_path, row).rows[0]["answer"] == "of the event"


def retrieved(
    own: str, *documents: dict[str, Any], kind: str = "retrieval.documents", **further: Any
) -> dict[str, Any]:
    return span(own=own, parent="s", **{kind: [{"document": item} for item in documents]}, **further)


def test_documents_of_several_searches_are_joined_each_once(tmp_path: Path) -> None:
    one, two = {"id": "1", "content": "x"}, {"id": 2, "content": "x"}
    (row,) = read(tmp_path, SPAN, retrieved("a", one, two), retrieved("b", two, {"content": "y"}, one)).rows
    assert row["contexts"] == [{"id": "1", "text": "x"}, {"id": "2", "text": "x"}, {"text": "y"}]


def test_of_several_rerankers_the_last_one_counts(tmp_path: Path) -> None:
    first, last = (
        timed(retrieved(name, {"content": name}, kind="reranker.output_documents"), f"2026-01-01T10:00:0{n}Z", None)
        for n, name in enumerate(("first", "last"))
    )
    assert read(tmp_path, SPAN, last, first).rows[0]["contexts"] == [{"text": "last"}]


@pytest.mark.parametrize("key", ["content", "text", "page_content"])
def test_a_document_has_its_text_its_title_and_its_address(tmp_path: Path, key: str) -> None:
    of_genai = [{key: "x", "name": "A title", "url": "http://one"}, {key: "y", "title": 7, "id": ""}]
    row = span(own="r", parent="s", **{"gen_ai.retrieval.documents": json.dumps(of_genai)})
    assert read(tmp_path, SPAN, row).rows[0]["contexts"] == [
        {"title": "A title", "url": "http://one", "text": "x"},
        {"title": "7", "text": "y"},
    ]


def test_documents_without_text_are_counted_and_are_not_retrieving_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, SPAN, retrieved("r", {"id": "1"}, {"content": "  "}, {"content": 5}))
    assert "contexts" not in found.rows[0]
    assert found.notes == ("3 retrieved documents without text are left out: t",)


def test_a_retrievers_documents_have_precedence_over_its_output(tmp_path: Path) -> None:
    kind = {"langfuse.observation.type": "retriever", "langfuse.observation.output": '["of the output"]'}
    assert read(tmp_path, SPAN, span(own="r", parent="s", **kind)).rows[0]["contexts"] == [{"text": "of the output"}]
    row = retrieved("r", {"content": "of the documents"}, **kind)
    assert read(tmp_path, SPAN, row).rows[0]["contexts"] == [{"text": "of the documents"}]
    chain = span(own="r", parent="s", **{**kind, "langfuse.observation.type": "chain"})
    assert "contexts" not in read(tmp_path, SPAN, chain).rows[0]
    for broken in ('{"no": "list"}', "[broken", 5):
        row = span(own="r", parent="s", **{**kind, "langfuse.observation.output": broken})
        assert "contexts" not in read(tmp_path, SPAN, row).rows[0]


@pytest.mark.parametrize(
    ("attributes", "tokens"),
    [
        ({"llm.token_count.prompt": 0}, 0),
        ({"gen_ai.usage.prompt_tokens": 4.0}, 4),
        ({"langfuse.observation.usage_details": {"input": 5}}, 5),
        ({"langfuse.observation.usage_details": "{broken"}, None),
        ({"llm.token_count.prompt": True}, None),
        ({"llm.token_count.prompt": -1}, None),
        ({"llm.token_count.prompt": "many", "gen_ai.usage.input_tokens": 6}, 6),
    ],
)
def test_tokens_are_numbers_from_0_on(tmp_path: Path, attributes: dict[str, Any], tokens: int | None) -> None:
    model = span(own="m", parent="s", **{"gen_ai.operation.name": "chat"}, **attributes)
    assert read(tmp_path, SPAN, model).rows[0].get("input_tokens") == tokens


def test_nested_calls_are_not_counted(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 3}
    outer = span(own="1", parent="s", **kind)
    between = span(own="2", parent="1", **{"openinference.span.kind": "CHAIN"})
    inner = span(own="3", parent="2", **kind)
    assert read(tmp_path, SPAN, outer, between, inner).rows[0]["input_tokens"] == 3
    apart = span(own="4", parent="2", **kind)
    assert read(tmp_path, SPAN, {**between, "parent_id": "s"}, outer, inner, apart).rows[0]["input_tokens"] == 9


def test_values_of_otlp_are_of_every_type(tmp_path: Path) -> None:
    def text(value: str) -> dict[str, Any]:
        return {"stringValue": value}

    documents = {"arrayValue": {"values": [{"kvlistValue": {"values": [{"key": "content", "value": text("d")}]}}]}}
    values = {
        "langfuse.observation.input": {"kvlistValue": {"values": [{"key": "question", "value": text("q")}]}},
        "langfuse.observation.output": {"arrayValue": {"values": [text("u")]}},
        "gen_ai.operation.name": text("chat"),
        "gen_ai.usage.input_tokens": {"intValue": "12"},
        "gen_ai.usage.output_tokens": {"doubleValue": 2.0},
        "gen_ai.retrieval.documents": documents,
    }
    attributes = [{"key": key, "value": value} for key, value in values.items()]
    (row,) = read(tmp_path, {"traceId": "t", "spanId": "s", "attributes": attributes}).rows
    assert row == {
        **{"id": "t", "question": "q", "answer": "u", "contexts": [{"text": "d"}]},
        **{"input_tokens": 12, "output_tokens": 2},
    }
    assert (
        "input_tokens"
        not in read(
            tmp_path,
            {
                "traceId": "t",
                "spanId": "s",
                "attributes": [*attributes[:3], {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1" * 20}}],
            },
        ).rows[0]
    )


def test_a_note_names_three_and_counts_the_rest(tmp_path: Path) -> None:
    silent = [span(f"t{n}", **{"input.value": "q"}) for n in range(5)]
    assert read(tmp_path, SPAN, *silent).notes == ("5 traces without an answer: t0, t1, t2, and 2 more",)
    assert read(tmp_path, SPAN, *silent[:3]).notes == ("3 traces without an answer: t0, t1, t2",)
    blank = [span(f"t{n}", **{"input.value": " ", "output.value": "a"}) for n in range(2)]
    assert read(tmp_path, SPAN, *blank).notes == ("2 traces without a question: t0, t1",)


def test_an_answer_may_be_an_empty_text(tmp_path: Path) -> None:
    assert read(tmp_path, span(**{"input.value": "q", "output.value": ""})).rows[0]["answer"] == ""


def test_a_span_with_too_many_values_is_left_out_and_named(tmp_path: Path) -> None:
    many = {f"gen_ai.x{n}": n for n in range(20_001)}
    assert read(tmp_path, SPAN, span("u", **many)).notes == (
        "1 spans or lines are unreadable: line 2 (a span with more than 20,000 values)",
    )
    unread = {f"http.x{n}": n for n in range(20_001)}
    assert read(tmp_path, {**SPAN, "attributes": {**SPAN["attributes"], **unread}}).notes == ()


def test_a_missing_file_is_one_error(tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        read_traces(tmp_path / "spans.jsonl")


# LangChain's messages, several first spans, repeated ids, deep and flat traces.

HUMAN, AI = {"content": "Who made the chart?", "type": "human"}, {"content": "Ines made it.", "type": "ai"}


def constructor(name: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": message}


@pytest.mark.parametrize(
    "messages",
    [
        [HUMAN, AI],
        [{"type": one["type"], "data": one} for one in (HUMAN, AI)],
        [constructor("HumanMessage", HUMAN), constructor("AIMessageChunk", {"content": AI["content"]})],
        [["user", HUMAN["content"]], ["ai", AI["content"]]],
        [[HUMAN, AI]],
        [HUMAN, {**AI, "content": [{"type": "text", "text": AI["content"]}]}, {**AI, "content": "", "tool_calls": []}],
        [{"message": {"role": "user", "content": HUMAN["content"]}}, {"role": "assistant", "content": AI["content"]}],
    ],
)
def test_messages_of_langchain_are_read_and_a_grader_is_not(write: Callable[[Any], Path], messages: list[Any]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    asked = messages[:1] if len(messages) > 1 else [messages[0][:1]]
    with tracer.start_as_current_span("graph", openinference_span_kind="chain") as chain:
        chain.set_input({"messages": asked})
        chain.set_output({"messages": messages, "documents": []})
        with tracer.start_as_current_span("grader", openinference_span_kind="llm") as grader:
            grader.set_output("grounded: yes")
    found = read_traces(file)
    (row,) = found.rows
    assert (row["question"], row["answer"]) == (HUMAN["content"], AI["content"])
    assert "contexts" not in row  # a state of a graph is no search
    assert not found.notes


@pytest.mark.parametrize(
    "output",
    [
        {"generations": [[{"text": "", "message": constructor("AIMessage", AI)}]]},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": AI["content"]}}]},
        constructor("AIMessage", AI),
        {"answer": constructor("AIMessage", {**AI, "content": [{"type": "text", "text": AI["content"]}]})},
    ],
)
def test_a_reply_of_a_model_is_an_answer_in_every_form(tmp_path: Path, output: dict[str, Any]) -> None:
    result = read(tmp_path, span(**{"input.value": "q", "output.value": json.dumps(output)}))
    assert result.rows[0]["answer"] == AI["content"]


def test_an_answer_from_a_model_call_alone_is_noted(tmp_path: Path) -> None:
    old = [HUMAN, AI, {**HUMAN, "content": "And when?"}]  # the last question has no answer
    root = span(**{"input.value": "And when?", "output.value": json.dumps({"messages": old})})
    model = span(own="m", parent="s", **{"openinference.span.kind": "LLM", "output.value": "In May."})
    result = read(tmp_path, root, model)
    assert result.rows[0]["answer"] == "In May."
    assert result.notes == (
        "1 answers come from the last model reply, which may be a grader's, as the root span has none: t",
    )


def test_each_root_span_of_a_trace_is_a_row(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    openinference(provider.get_tracer("test"), "s")
    text, trace = file.read_text("utf-8"), "1" * 32
    for row in read_traces(file).rows:  # the SDK writes one trace per turn; here one trace has both
        text = text.replace(row["id"], trace)
    file.write_text(text, "utf-8")
    found = read_traces(file)
    assert [(row["question"], row["answer"]) for row in found.rows] == [turn[:2] for turn in TURNS]
    assert [row["id"] for row in found.rows] == [f"{trace}-1", f"{trace}-2"]
    assert [[passage["text"] for passage in row["contexts"]] for row in found.rows] == [turn[2] for turn in TURNS]
    assert [row["input_tokens"] for row in found.rows] == [100, 100]
    assert not found.notes


def test_a_root_span_that_is_not_a_row_is_counted(tmp_path: Path) -> None:
    one, lost = asked_and_answered("t"), span(own="two", parent="lost", **{"input.value": "q", "output.value": "b"})
    model = span(own="m", **{"openinference.span.kind": "LLM", "input.value": "grade", "output.value": "yes"})
    found = read(tmp_path, one, lost, model)
    assert [(row["id"], row["answer"]) for row in found.rows] == [("t", "a")]
    assert found.notes == ("2 further root spans with a question are left out: t",)
    found = read(tmp_path, one, span(own="silent", **{"input.value": "no reply?"}))
    assert [row["id"] for row in found.rows] == ["t-1"]
    assert found.notes == ("1 traces without an answer: t",)


def test_two_spans_of_one_id_are_both_read_and_a_repeated_line_once(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "LLM"}
    model, other = (span(own="m", parent="s", **kind, **{"llm.token_count.prompt": n}) for n in (3, 4))
    found = read(tmp_path, SPAN, model, other, other, SPAN)
    assert found.rows[0]["input_tokens"] == 7
    assert found.notes == ("1 spans share their id with another span of the trace; both are read: t",)
    found = read(tmp_path, SPAN, asked_and_answered("t", "another question"))
    assert [row["question"] for row in found.rows] == ["q", "another question"]


def test_a_search_without_results_is_empty(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "RETRIEVER", "input.value": "old maps"}
    empty = span(own="r", parent="s", **kind)
    result = read(tmp_path, SPAN, empty)
    assert (result.rows[0]["searches"], result.rows[0]["contexts"]) == ([{"query": "old maps", "passages": []}], [])
    assert result.notes == ("1 searches without documents and output count as empty: t",)
    for output in ("[]", '{"documents": []}'):
        result = read(tmp_path, SPAN, {**empty, "attributes": {**kind, "output.value": output}})
        assert result.rows[0]["searches"] == [{"query": "old maps", "passages": []}]
        assert not result.notes
    hidden = read(tmp_path, SPAN, {**empty, "attributes": {**kind, "output.value": "__REDACTED__"}})
    assert not {"searches", "contexts"} & hidden.rows[0].keys()
    inner = {**retrieved("i", {"content": "x"}, **kind), "parent_id": "r"}
    nested = read(tmp_path, SPAN, empty, inner)
    assert "searches" not in nested.rows[0]
    assert nested.rows[0]["contexts"] == [{"text": "x"}]
    assert not nested.notes


def test_cycles_of_parents_end(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 1}
    circle = [span(own=str(n), parent=str((n + 1) % 5), **kind) for n in range(5)]
    result = read(tmp_path, SPAN, *circle, span(own="x", parent="2", **kind))
    assert (result.rows[0]["question"], result.rows[0]["input_tokens"]) == ("q", 1)


@pytest.mark.parametrize("is_deep", [True, False], ids=["deep", "flat"])
def test_twice_the_spans_take_twice_the_steps(tmp_path: Path, is_deep: bool) -> None:
    def steps(n: int) -> int:
        spans = [SPAN]
        for number in range(n):
            parent = f"c{number - 1}" if is_deep and number else "s"
            spans.append(span(own=f"c{number}", parent=parent, **{"openinference.span.kind": "CHAIN"}))
            spans.append(span(own=f"m{number}", parent=f"c{number}", **{"openinference.span.kind": "LLM"}))
        file = lines(tmp_path / "spans.jsonl", *reversed(spans))
        taken, before = 0, sys.gettrace()

        def count(_frame: FrameType, _event: str, _argument: object) -> Any:
            nonlocal taken
            taken += 1
            return count

        sys.settrace(count)
        try:
            read_traces(file)
        finally:
            sys.settrace(before)
        return taken

    assert steps(200) < 2.2 * steps(100)
