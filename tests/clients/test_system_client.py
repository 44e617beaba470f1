"""A RAG system behind HTTP: its requests, and the fields of its answer and passages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ragtasks.clients import (
    ChatMessage,
    Outcome,
    Prompt,
    Reply,
    SystemClient,
    SystemProtocol,
    no_secrets,
    system_endpoint,
)
from ragtasks.errors import ConfigurationError
from ragtasks.scoring import System
from tests.clients._server import Action, ChatServer, chat_server, completion

MESSAGES = [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "a1"}, {"role": "user", "content": "q"}]
PROMPT = Prompt(tuple(ChatMessage(**message) for message in MESSAGES), body={"id": "task-7"})  # type: ignore[arg-type]


def send(action: Action, protocol: SystemProtocol, **options: Any) -> tuple[Reply, SystemClient, ChatServer]:
    with chat_server(lambda *_: action) as server:
        endpoint, chosen = system_endpoint({"base_url": server.base_url, **options}, "mine", protocol.value)
        client = SystemClient(endpoint, chosen, lambda _: None)
        (reply,) = client.answer([PROMPT])
    return reply, client, server


def test_a_chat_system_is_sent_only_the_conversation_and_named_settings() -> None:
    reply, client, server = send(completion("fine"), SystemProtocol.OPENAI)
    assert (reply.outcome, reply.text) == (Outcome.ANSWERED, "fine")
    assert server.bodies == [{"model": "mine", "messages": MESSAGES}]
    assert server.paths == ["/v1/chat/completions"]
    assert client.describe() == {"model": "mine", "protocol": "openai", "extra_body": {}}
    assert (client.name, client.origin) == ("mine", server.base_url)


def test_settings_named_by_the_user_are_sent_and_described() -> None:
    options = {"temperature": 0.3, "max_tokens": 50, "reasoning_effort": "low", "extra_body": {"top_k": 3}}
    _, client, server = send(completion(), SystemProtocol.OPENAI, **options)
    named = {"temperature": 0.3, "max_tokens": 50, "reasoning_effort": "low"}
    assert server.bodies == [{"model": "mine", "messages": MESSAGES, **named, "top_k": 3}]
    assert client.describe() == {"model": "mine", "protocol": "openai", **named, "extra_body": {"top_k": 3}}
    _, _, server = send(completion(), SystemProtocol.OPENAI, temperature="server")
    assert "temperature" not in server.bodies[0]


def test_a_plain_system_is_sent_id_and_conversation_at_its_address() -> None:
    action = Action(b'{"answer": "fine", "contexts": ["one", {"id": "p", "text": "two", "title": "t"}]}')
    reply, client, server = send(action, SystemProtocol.PLAIN, extra_body={"k": 3}, temperature=0.3)
    assert (reply.outcome, reply.text, reply.raw) == (Outcome.ANSWERED, "fine", action.body.decode())
    assert server.bodies == [{"id": "task-7", "messages": MESSAGES, "k": 3}]
    assert server.paths == ["/v1"]
    passages = client.used(reply)[0]
    assert [(passage.passage_id, passage.text, passage.title) for passage in passages or ()] == [
        ("context-1", "one", ""),
        ("p", "two", "t"),
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "the reply has no text as `answer`"),
        (b'{"answer": null}', "the reply has no text as `answer`"),
        (
            b'{"response": "x", "sources": []}',
            "expected a reply with `answer`, a text, found the keys response, sources",
        ),
        (b'{"answer": "a", "contexts": "c"}', "`contexts`: expected a list, found str"),
        (b'{"answer": "a", "contexts": [{"id": "p"}]}', "`contexts`: expected context 1: a text"),
    ],
)
def test_a_plain_reply_in_another_form_has_a_reason(body: bytes, reason: str) -> None:
    reply, _, server = send(Action(body), SystemProtocol.PLAIN)
    assert (reply.outcome, reply.text, reply.raw) == (Outcome.MALFORMED, None, body.decode())
    assert reply.reason.startswith(reason)
    assert len(reply.reason) <= 200
    assert len(server.asked) == 1


@pytest.mark.parametrize(("contexts", "n"), [({}, None), ({"contexts": None}, None), ({"contexts": []}, 0)])
def test_empty_contexts_differ_from_missing_contexts(contexts: Mapping[str, Any], n: int | None) -> None:
    reply, client, _ = send(Action(json.dumps({"answer": "", **contexts}).encode()), SystemProtocol.PLAIN)
    assert reply.text == ""
    found = client.used(reply)[0]
    assert (None if found is None else len(found)) == n


def test_the_usage_reported_by_a_plain_system_is_recorded() -> None:
    took = {"answer": "fine", "seconds": 2.5, "input_tokens": 7}
    for protocol, content, expected in (
        (SystemProtocol.PLAIN, took, {"seconds": 2.5, "input_tokens": 7}),
        (SystemProtocol.PLAIN, {**took, "answer": 3}, {}),
        (SystemProtocol.OPENAI, {**took, "choices": [{"message": {"content": "fine"}}]}, {}),
    ):
        reply, client, _ = send(Action(json.dumps(content).encode()), protocol)
        assert client.usage(reply) == expected


@pytest.mark.parametrize("content", ["<think>hm</think> fine ", "", " fine"])
def test_the_text_of_a_chat_system_is_unchanged(content: str) -> None:
    reply, _, _ = send(completion(content), SystemProtocol.OPENAI)
    assert (reply.outcome, reply.text) == (Outcome.ANSWERED, content)


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS", "SAFETY"])
def test_an_incomplete_reply_of_a_system_is_no_answer(reason: str) -> None:
    plain = Action(json.dumps({"answer": "cut o", "finish_reason": reason}).encode())
    for action, protocol in (
        (completion("cut o", finish_reason=reason), SystemProtocol.OPENAI),
        (plain, SystemProtocol.PLAIN),
    ):
        reply, _, server = send(action, protocol)
        assert (reply.outcome, reply.text) == (Outcome.FILTERED if reason == "SAFETY" else Outcome.TRUNCATED, None)
        assert len(server.asked) == 1, "a system is given no more room: it has a limit of its own"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion(None, refusal="no").body, "the model refused"),
        (completion(None).body, "the reply has no text as choices[0].message.content"),
        (b'{"choices": []}', "the reply has no text as choices[0].message.content"),
        (b'{"choices": ["x"]}', "the reply has no text as choices[0].message.content"),
        (b'{"choices": [{"message": 5}]}', "the reply has no text as choices[0].message.content"),
        (b"[1]", "the reply has no text as choices[0].message.content"),
    ],
)
def test_a_chat_reply_without_a_text_has_a_reason(body: bytes, reason: str) -> None:
    reply, client, _ = send(Action(body), SystemProtocol.OPENAI)
    assert (reply.outcome, reply.text, reply.reason) == (Outcome.MALFORMED, None, reason)
    assert client.used(reply)[0] is None


def contexts_in(message: Mapping[str, Any], choice: Mapping[str, Any], body: Mapping[str, Any]) -> list[Any] | None:
    content = {"choices": [{"message": {"content": "a", **message}, **choice}], **body}
    reply, client, _ = send(Action(json.dumps(content).encode()), SystemProtocol.OPENAI)
    passages = client.used(reply)[0]
    return None if passages is None else [(passage.passage_id, passage.text, passage.title) for passage in passages]


SEARCHES = [{"query": "q", "passages": ["one", {"id": "p", "text": "two"}]}, {"read": "p", "passages": []}]


@pytest.mark.parametrize("place", range(3), ids=["message", "choice", "body"])
def test_searches_in_a_chat_reply_give_the_passages_of_the_answer(place: int) -> None:
    holders: list[dict[str, Any]] = [{}, {}, {}]
    holders[place] = {"searches": SEARCHES}
    message, choice, body = holders
    content = {"choices": [{"message": {"content": "a", **message}, **choice}], **body}
    reply, client, _ = send(Action(json.dumps(content).encode()), SystemProtocol.OPENAI)
    passages, trajectory = client.used(reply)
    assert [passage.passage_id for passage in passages or ()] == ["context-1", "p"]
    assert [(step.tool, step.passages) for step in trajectory.steps] == [("search", ("context-1", "p")), ("read", ())]


@pytest.mark.parametrize("protocol", SystemProtocol)
def test_searches_in_another_form_are_malformed_with_a_reason(protocol: SystemProtocol) -> None:
    searches = {"searches": [{"query": "q"}]}
    content = {"answer": "a", **searches, "choices": [{"message": {"content": "a"}}]}
    reply, _, _ = send(Action(json.dumps(content).encode()), protocol)
    expected = "expected search 1: `passages`, [] without results, found no `passages`"
    assert (reply.outcome, reply.text, reply.reason) == (Outcome.MALFORMED, None, expected)
    assert json.loads(reply.raw) == content, "it is kept as it came"


TWO = [{"text": "one", "id": "p", "title": "t"}, {"text": "two"}]
AS_TWO = [("p", "one", "t"), ("context-2", "two", "")]


@pytest.mark.parametrize("field", ["contexts", "context", "citations", "sources"])
@pytest.mark.parametrize("place", range(3), ids=["message", "choice", "body"])
def test_passages_are_read_from_every_usual_field(field: str, place: int) -> None:
    holders: list[dict[str, Any]] = [{}, {}, {}]
    holders[place] = {field: TWO}
    assert contexts_in(*holders) == AS_TWO
    holders[place] = {field: []}
    assert contexts_in(*holders) == []


@pytest.mark.parametrize("text", ["text", "content", "page_content"])
@pytest.mark.parametrize("name", ["id", "passage_id", "document_id", "chunk_id", "filepath"])
def test_text_and_id_of_a_passage_are_read_from_every_usual_key(text: str, name: str) -> None:
    assert contexts_in({"contexts": [{text: "x", name: "p"}]}, {}, {}) == [("p", "x", "")]
    assert contexts_in({"contexts": [{text: "x", name: ""}, {text: "y", name: 7}]}, {}, {}) == [
        ("context-1", "x", ""),
        ("context-2", "y", ""),
    ]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"contexts": ["one", 5, "two"]}, [("context-1", "one", ""), ("context-3", "two", "")]),
        ({"citations": ["http://one", "http://two"]}, None),
        ({"context": {"citations": TWO}}, AS_TWO),
        ({"context": {"intent": "x"}, "sources": TWO}, AS_TWO),
        ({"sources": [{"document": ["one", 5, "two"]}]}, [("context-1.1", "one", ""), ("context-1.3", "two", "")]),
        ({"contexts": [{"score": 1}], "citations": TWO}, AS_TWO),
        ({"contexts": [{"text": "x", "title": 5}]}, [("context-1", "x", "")]),
        ({"contexts": "text"}, None),
        ({}, None),
    ],
)
def test_entries_without_text_are_skipped(message: Mapping[str, Any], found: list[Any] | None) -> None:
    assert contexts_in(message, {}, {}) == found


def test_passages_of_the_message_precede_those_of_the_body() -> None:
    assert contexts_in({"sources": TWO}, {"contexts": ["choice"]}, {"contexts": ["body"]}) == AS_TWO
    assert contexts_in({}, {"contexts": ["choice"]}, {"contexts": ["body"]}) == [("context-1", "choice", "")]


@pytest.mark.parametrize(
    ("named", "address", "protocol", "name"),
    [
        ("http://x/ask", "http://x/ask", "plain", "mine"),
        ('{"base_url": "http://x", "protocol": "openai", "model": "m"}', "http://x", "openai", "m"),
        (' {"base_url": "http://x"}', "http://x", "plain", "mine"),
        ({"base_url": "http://x", "slots": 3}, "http://x", "plain", "mine"),
    ],
)
def test_a_system_is_named_by_its_address_or_an_object(named: Any, address: str, protocol: str, name: str) -> None:
    endpoint, found = system_endpoint(named, "mine", "plain")
    assert (endpoint.address, found.value, endpoint.model) == (address, protocol, name)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ('{"base_url": ', "expected an address, or a JSON object with base_url"),
        ("{}[", "expected an address, or a JSON object with base_url"),
        ({"base_url": "http://x", "protocol": "opnai"}, "unknown protocol 'opnai': did you mean 'openai'"),
        ("not an address", "base_url must begin with http"),
    ],
)
def test_invalid_system_descriptions_are_refused(named: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        system_endpoint(named, "mine", "plain")


def test_an_answer_without_named_passages_uses_those_sent_or_none() -> None:
    named, bare = {"answer": "Two.", "contexts": ["Mars has two moons."]}, {"answer": "Two."}
    with chat_server(lambda text, _: Action(json.dumps(named if "moons" in text else bare).encode())) as server:
        endpoint = {"base_url": server.base_url, "timeout_seconds": 5.0}
        system = System(*system_endpoint(endpoint, "mine", "plain"), no_secrets)
        messages = {text: [{"role": "user", "content": text}] for text in ("moons", "rings")}
        tasks = [{"id": "1", "messages": messages["moons"]}, {"id": "2", "messages": messages["rings"]}]
        sent, searched = system.ask([{**task, "contexts": []} for task in tasks]), system.ask(tasks)
    assert [[bool(one.passages), one.passages is None] for one in sent] == [[True, False], [False, True]]
    assert [[bool(one.passages), one.passages is None] for one in searched] == [[True, False], [False, False]]
