"""Traces as rows: spans that the real SDKs wrote, every form of a line, and what hostile files do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from openinference.instrumentation import TracerProvider as OpenInferenceProvider
from openinference.instrumentation import using_session
from openinference.semconv.trace import DocumentAttributes, MessageAttributes, RerankerAttributes, SpanAttributes
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from ragtasks.errors import BenchmarkFileError
from ragtasks.results import Traces, read_traces

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
    """Have a pipeline's chain, retriever and model write their spans by the helpers of OpenInference."""
    for question, answer, texts in turns:
        with using_session(session), tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
            chain.set_input(question)
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as retriever:
                for place, text in enumerate(texts):
                    prefix = f"{SpanAttributes.RETRIEVAL_DOCUMENTS}.{place}."
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_ID, f"doc-{place}")
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_CONTENT, text)
                    retriever.set_attribute(prefix + DocumentAttributes.DOCUMENT_SCORE, 1.0 / (place + 1))
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


def test_spans_of_the_genai_conventions_are_rows(write: Callable[[Any], Path]) -> None:
    provider = TracerProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    asked = [{"role": "user", "parts": [{"type": "text", "content": TURNS[0][0]}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": TURNS[0][1]}], "finish_reason": "stop"}]
    documents = [{"id": "d1", "score": 0.9, "content": TURNS[0][2][0]}, {"id": "d2", "score": 0.1}]
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c-7"}
    messages = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
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
    assert [item["text"] for item in row["contexts"]] == TURNS[0][2]
    assert (row["input_tokens"], row["output_tokens"]) == (30, 4)


def test_what_a_reranker_left_is_what_the_answer_rests_on(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("rag", openinference_span_kind="chain") as chain:
        chain.set_input("q")
        with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
            for place in range(12):
                span.set_attribute(f"retrieval.documents.{place}.document.content", f"text {place}")
        with tracer.start_as_current_span("rerank", openinference_span_kind="reranker") as span:
            for place, text in enumerate(("text 11", "text 2")):
                span.set_attribute(f"{RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS}.{place}.document.content", text)
        chain.set_output("a")
    (row,) = read_traces(file).rows
    assert row["contexts"] == [{"text": "text 11"}, {"text": "text 2"}]


def test_a_question_that_only_the_model_was_sent_is_named(write: Callable[[Any], Path]) -> None:
    provider = OpenInferenceProvider()
    file = write(provider)
    tracer = provider.get_tracer("test")
    roles = (("input", 0, "system", "Be short."), ("input", 1, "user", "q"), ("output", 0, "assistant", "a"))
    with (
        tracer.start_as_current_span("rag", openinference_span_kind="chain"),
        tracer.start_as_current_span("model", openinference_span_kind="llm") as span,
    ):
        for side, place, role, text in roles:
            prefix = f"llm.{side}_messages.{place}."
            span.set_attribute(prefix + MessageAttributes.MESSAGE_ROLE, role)
            span.set_attribute(prefix + MessageAttributes.MESSAGE_CONTENT, text)
    found = read_traces(file)
    (row,) = found.rows
    assert (row["question"], row["answer"]) == ("q", "a")
    assert not {"contexts", "conversation_id", "input_tokens"} & row.keys()  # nobody said so
    assert found.notes[0].startswith("1 questions are the last message to the model")


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


# Lines by hand: what no SDK of this machine writes.


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def span(trace: str = "t", own: str = "s", parent: str | None = None, **attributes: Any) -> dict[str, Any]:
    return {"context": {"trace_id": trace, "span_id": own}, "parent_id": parent, "attributes": attributes}


SPAN = span(**{"input.value": "q", "output.value": "a"})


def read(tmp_path: Path, *rows: object) -> Traces:
    return read_traces(lines(tmp_path / "spans.jsonl", *rows))


def test_columns_of_a_data_frame_of_phoenix_are_read(tmp_path: Path) -> None:
    place = {"context.trace_id": "t", "start_time": "2026-01-01T10:00:00Z", "end_time": "2026-01-01T10:00:01.5Z"}
    root = {**place, "context.span_id": "a", "parent_id": None, "span_kind": "CHAIN"}
    documents = [{"document.content": "x", "document.id": "7", "document.score": 0.5}]
    retriever = {**place, "context.span_id": "b", "parent_id": "a", "attributes.retrieval.documents": documents}
    (row,) = read(
        tmp_path,
        {**root, "attributes.input.value": "q", "attributes.output.value": "a"},
        {**retriever, "span_kind": "RETRIEVER"},
    ).rows
    assert row == {"id": "t", "question": "q", "answer": "a", "contexts": [{"id": "7", "text": "x"}], "seconds": 1.5}


def test_retrieving_nothing_is_not_saying_nothing(tmp_path: Path) -> None:
    empty, silent = (
        read(tmp_path, SPAN, span(own="r", parent="s", **attributes)).rows[0]
        for attributes in (
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": "[]"},
            {"openinference.span.kind": "RETRIEVER"},
        )
    )
    assert empty["contexts"] == []
    assert "contexts" not in silent


def test_documents_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    numbered = {f"retrieval.documents.{place}.document.content": f"text {place}" for place in (10, 2, 0)}
    (row,) = read(tmp_path, SPAN, span(own="r", parent="s", **numbered)).rows
    assert [item["text"] for item in row["contexts"]] == ["text 0", "text 2", "text 10"]


def test_parts_of_a_pipeline_that_differ_say_no_question(tmp_path: Path) -> None:
    parts = {"data": {"retriever": {"query": "a rewritten question"}, "prompt": {"question": "the question"}}}
    alike = {"data": {"retriever": {"query": "the question"}, "prompt": {"question": "the question"}}}
    answered = {"output.value": json.dumps({"model": {"replies": ["a"]}, "retriever": {"documents": []}})}
    (row,) = read(tmp_path, span(**answered, **{"input.value": json.dumps(alike)})).rows
    assert (row["question"], row["answer"]) == ("the question", "a")
    with pytest.raises(BenchmarkFileError, match="1 traces without a question"):
        read(tmp_path, span(**answered, **{"input.value": json.dumps(parts)}))


def test_tokens_are_those_of_all_calls_or_of_none(tmp_path: Path) -> None:
    kind = {"openinference.span.kind": "LLM"}
    first = span(own="1", parent="s", **kind, **{"llm.token_count.prompt": 3})
    inner = span(own="2", parent="1", **kind, **{"llm.token_count.prompt": 3})  # the same call, written twice
    silent = span(own="3", parent="s", **kind)
    assert read(tmp_path, SPAN, first, inner).rows[0]["input_tokens"] == 3
    assert "input_tokens" not in read(tmp_path, SPAN, first, inner, silent).rows[0]


def test_bad_lines_are_counted_and_named(tmp_path: Path) -> None:
    found = read(tmp_path, SPAN, "{", [], {"attributes": {}}, {"context": {"trace_id": 5, "span_id": "x"}}, "")
    assert len(found.rows) == 1
    (note,) = found.notes
    assert note.startswith("4 spans or lines cannot be read: line 2 (no JSON")
    assert note.endswith("and 1 more")


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
def test_a_hostile_span_costs_no_more_than_itself(tmp_path: Path, row: object) -> None:
    found = read(tmp_path, SPAN, row)
    assert [(item["question"], item["answer"]) for item in found.rows] == [("q", "a")]
    assert len(str(found.notes)) < 1_000


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no span"),
        (["nonsense"], "1 spans or lines cannot be read: line 1"),
        ([span(**{"input.value": "q"})], "1 traces without an answer: t"),
        ([{"question": "q", "answer": "a"}], "ids of trace and span are missing"),
    ],
)
def test_a_file_without_answers_is_one_error(tmp_path: Path, rows: list[object], said: str) -> None:
    with pytest.raises(BenchmarkFileError, match=r"docs/score-your-system\.md") as error:
        read(tmp_path, *rows)
    assert said in str(error.value)


def test_too_many_spans_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.results._traces.MOST_SPANS", 2)
    with pytest.raises(BenchmarkFileError, match="more than 2 spans"):
        read(tmp_path, SPAN, span(own="2"), span(own="3"))
