"""Embedding requests: contents, vectors per text, usage, and invalid vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import (
    BATCH_TEXTS,
    BATCH_TOKENS,
    CachedClient,
    Credentials,
    EmbeddingClient,
    Endpoint,
    Outcome,
    Prompt,
    Reply,
    ReplyCache,
    vector_in,
)
from tests.clients._server import Action, refusal
from tests.clients.test_client import QUICK
from tests.retrieval_cache.retrievers._embedding_server import (
    EmbeddingServer,
    embedding_server,
    in_base64,
    reply,
    words,
)

KEY = "sk-test-0123456789abcdef"
TEXTS = ("Mars has two moons", "bees dance", "moons of Mars")


def client_for(
    server: EmbeddingServer, *, batch_tokens: int = BATCH_TOKENS, batch_texts: int = BATCH_TEXTS, **options: Any
) -> EmbeddingClient:
    endpoint = Endpoint.model_validate({"model": "m", "base_url": server.base_url, "slots": 1, **QUICK, **options})
    return EmbeddingClient(endpoint, Credentials(KEY), batch_tokens=batch_tokens, batch_texts=batch_texts)


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt.of(text) for text in texts]


def vectors(replies: list[Reply]) -> list[list[float] | None]:
    return [None if reply.text is None else vector_in(reply.text).tolist() for reply in replies]


class Known:
    """A journal with replies to some prompts; it records all others."""

    def __init__(self, **cached: Reply) -> None:
        self.known = {int(index.removeprefix("at_")): reply for index, reply in cached.items()}
        self.written: dict[int, Reply] = {}

    def recall(self, index: int) -> Reply | None:
        return self.known.get(index)

    def record(self, index: int, reply: Reply) -> None:
        self.written[index] = reply


def test_texts_are_sent_without_chat_settings() -> None:
    with embedding_server() as server:
        client = client_for(server, extra_body={"dimensions": 16}, temperature=0.5, reasoning_effort="low")
        client.answer([Prompt.of("a"), Prompt.of("b", system="only the last message is a text")])
    assert server.paths == ["/v1/embeddings"]
    assert server.bodies == [{"model": "m", "input": ["a", "b"], "dimensions": 16}]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_every_text_gets_its_own_vector_in_any_order_of_the_reply() -> None:
    with embedding_server() as server:
        replies = client_for(server, batch_texts=2).answer(prompts(*TEXTS))
    assert vectors(replies) == words(TEXTS)
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}
    assert {reply.served_model for reply in replies} == {"m"}


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ([None, None, None], "[None, None, None]"),
        ([0, 0, 1], "[0, 0, 1]"),
        (["0", "1", "2"], "['0', '1', '2']"),
        ([1, 2, 3], "[1, 2, 3]"),
        ([0, 1, True], "[0, 1, True]"),
        ([0, 1, 2.0], "[0, 1, 2.0]"),
    ],
)
def test_vectors_with_invalid_indexes_are_refused_and_not_cached(
    tmp_path: Path, indexes: list[object], found: str
) -> None:
    def script(texts: list[str]) -> Action:
        named = zip(indexes, words(texts), strict=True)
        items = [{"embedding": vector, **({} if n is None else {"index": n})} for n, vector in named]
        return reply([], data=items)

    with embedding_server(script=script) as server, ReplyCache(tmp_path / "c") as cache:
        replies = CachedClient(client_for(server), cache).answer(prompts(*TEXTS))
        assert len(cache) == 0
    assert {one.outcome for one in replies} == {Outcome.MALFORMED}
    assert f"expected each `index` from 0 to 2 once, found {found}" in replies[0].reason


def test_equal_vectors_for_different_texts_are_refused_within_and_across_requests() -> None:
    for batch_texts, n_wrong in ((32, 3), (1, 2)):
        with embedding_server(lambda texts: [[0.5, 1.0] for _ in texts]) as server:
            replies = client_for(server, batch_texts=batch_texts).answer(prompts(*TEXTS))
        wrong = [reply.reason for reply in replies if reply.outcome is Outcome.MALFORMED]
        assert len(wrong) == n_wrong
        assert set(wrong) <= {"the same vector for 3 different texts", "the same vector for 2 different texts"}
    with embedding_server(lambda texts: [[0.5, 1.0] for _ in texts]) as server:
        replies = client_for(server).answer(prompts("Opening hours?", "opening hours", "Opening  hours!"))
    assert {reply.outcome for reply in replies} == {Outcome.ANSWERED}, "an encoder may see neither case nor signs"


def test_a_change_of_model_or_dimensions_between_requests_is_refused_and_not_cached(tmp_path: Path) -> None:
    def script(texts: list[str]) -> Action:
        model = "m-1" if len(server.bodies) == 1 else "m-2"
        return reply(words(texts), model=model)

    with embedding_server(script=script) as server, ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(client_for(server, batch_texts=1), cache)
        replies = client.answer(prompts(*TEXTS))
        assert len(cache) == 1
    wrong = [one.reason for one in replies if one.text is None]
    assert wrong == ["a vector of the model 'm-2', after vectors of 'm-1'"] * 2
    with embedding_server(lambda texts: [[1.0, 2.0] * len(text) for text in texts]) as server:
        replies = client_for(server, batch_texts=1).answer(prompts("a", "bc"))
    assert replies[1].reason == "vectors of 2 and of 4 dimensions"


def test_an_error_or_an_invalid_number_is_reported_at_once() -> None:
    for body, reason in (
        (b'{"error": {"message": "no such encoder"}}', "an error in place of a reply: no such encoder"),
        (b'{"data": [{"index": 0, "embedding": [0.5, NaN]}]}', "no list of vectors: a vector that is empty"),
    ):
        with embedding_server(script=lambda _, body=body: Action(body)) as server:
            (reply,) = client_for(server).answer(prompts("a"))
        assert reply.text is None
        assert reply.reason.startswith(reason)
        assert len(server.bodies) <= 2


def test_numbers_and_base64_give_the_same_reply() -> None:
    with embedding_server() as one, embedding_server(script=lambda texts: reply(in_base64(words(texts)))) as other:
        found = [client_for(server).answer(prompts(*TEXTS)) for server in (one, other)]
    assert found[0] == found[1]


def test_a_request_contains_as_many_texts_and_tokens_as_allowed() -> None:
    text = "x" * 36  # ten tokens: one per text, and one per four characters
    for limits, sizes in (
        ({"batch_texts": 2}, [2, 2, 1]),
        ({"batch_tokens": 30}, [3, 2]),
        ({"batch_tokens": 29}, [2, 2, 1]),
        ({"batch_tokens": 9}, [1] * 5),
        ({}, [5]),
    ):
        with embedding_server() as server:
            replies = client_for(server, **limits).answer(prompts(*[text] * 5))
        assert [len(body["input"]) for body in server.bodies] == sizes, limits
        assert len(replies) == 5
    with embedding_server() as server:
        client_for(server).answer(prompts(*map(str, range(33))))
    assert [len(body["input"]) for body in server.bodies] == [32, 1], "several servers take no more than 32 texts"


def test_each_request_counts_its_tokens_from_zero() -> None:
    with embedding_server() as server:
        client_for(server, batch_tokens=30).answer(prompts("x" * 76, *["x" * 36] * 4))
    assert [len(body["input"]) for body in server.bodies] == [2, 3]


def test_the_usage_of_a_request_is_recorded_at_its_first_text() -> None:
    usage = {"prompt_tokens": 12, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}, "cost": 0.5}
    with embedding_server(script=lambda texts: reply(words(texts), usage=usage)) as server:
        first, second, third = client_for(server, batch_texts=2).answer(prompts(*TEXTS))
    used = [one.usage for one in (first, second)]
    counts = [(one.input_tokens, one.output_tokens, one.cached_tokens, one.dollars) for one in used]
    assert counts == [(12, 0, 4, 0.5), (None, None, None, None)]
    assert first.usage.seconds is not None
    assert second.usage.seconds is None
    assert third.usage.input_tokens == 12, "the third is the first of another request"


def test_earlier_failed_attempts_count_for_the_first_text_only() -> None:
    refused = {"error": {"code": 500, "message": "again"}, "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    replies = iter([reply([], **refused)])
    with embedding_server(script=lambda texts: next(replies, None) or reply(words(texts))) as server:
        first, second = client_for(server).answer(prompts("a", "b"))
    assert [call.input_tokens for call in first.unused] == [3]
    assert second.unused == ()
    assert first.outcome is second.outcome is Outcome.ANSWERED


def test_progress_counts_texts_and_not_requests() -> None:
    calls: list[tuple[str, int, int | None]] = []
    with embedding_server() as server:
        client_for(server, batch_texts=2).answer(prompts("a", "b", "c"), lambda *call: calls.append(call))
    assert [(done, total) for _, done, total in calls] == [(2, 3), (3, 3)]
    assert {note.partition("\t")[0] for note, _, _ in calls} == {"m"}


def test_a_request_whose_vectors_are_all_cached_is_not_sent() -> None:
    cached = [Reply(Outcome.ANSWERED, vector, from_cache=True) for vector in in_base64([[1.0, 2.0], [3.0, 4.0]])]
    calls: list[tuple[int, int | None]] = []
    with embedding_server() as server:
        journal = Known(at_0=cached[0], at_1=cached[1])
        replies = client_for(server, batch_texts=2).answer(
            prompts("a", "b", *TEXTS), lambda _, *counts: calls.append(counts), journal
        )
        assert client_for(server).answer([]) == []
    assert server.asked == [*TEXTS]
    assert replies[:2] == cached
    assert vectors(replies)[2:] == words(TEXTS)
    assert {index: reply.text for index, reply in journal.written.items()} == {
        index: replies[index].text for index in (2, 3, 4)
    }
    assert calls == [(2, 5), (4, 5), (5, 5)]


def test_cached_vectors_are_kept_and_the_first_new_text_counts_the_usage() -> None:
    cached = Reply(Outcome.ANSWERED, in_base64([[1.0, 2.0]])[0], from_cache=True)
    with embedding_server() as server:
        journal = Known(at_0=cached)
        replies = client_for(server).answer(prompts(*TEXTS), journal=journal)
    assert server.asked == [*TEXTS]
    assert replies[0] == cached
    assert vectors(replies)[1:] == words(TEXTS[1:])
    assert {*journal.written} == {1, 2}
    assert [reply.usage.input_tokens is None for reply in replies[1:]] == [False, True]


def test_a_cached_vector_is_not_requested_again_with_other_texts(tmp_path: Path) -> None:
    with embedding_server() as server, ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(client_for(server), cache)
        first = client.answer(prompts("a", "b"))
        second = client.answer(prompts("c", "b", "a"))
    assert sorted(server.asked) == ["a", "b", "c"], "a cache begins anywhere"
    assert [reply.text for reply in second[:0:-1]] == [reply.text for reply in first]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0], [2.0], [3.0]], "3 vectors for 2 texts"),
        ([[1.0, 2.0], [3.0]], "vectors of 1 and of 2 dimensions"),
        ([[], [1.0]], "no list of vectors: a vector that is empty or all zeros"),
        ([[0.0, 0.0], [1.0, 2.0]], "no list of vectors: a vector that is empty or all zeros"),
        ([[1.0, None], [1.0, 2.0]], "no list of vectors: must be real number, not None"),
        ([[1e39], [1.0]], "no list of vectors: a vector that is empty"),
        ([["x"], [1.0]], "no list of vectors: must be real number, not str"),
        (["not base64!", "AAAA"], "no list of vectors: "),
        (["AAA=", "AAAAAA=="], "no list of vectors: "),
        ([None, None], "no list of vectors: "),
    ],
)
def test_a_reply_with_too_few_vectors_is_refused_for_all_its_texts(sent: list[Any], reason: str) -> None:
    with embedding_server(script=lambda _: reply(sent)) as server:
        replies = client_for(server).answer(prompts("a", "b"))
    for one in replies:
        assert (one.outcome, one.text) == (Outcome.MALFORMED, None)
        assert one.reason.startswith(reason)
    assert len(server.bodies) == 1


def test_the_reason_of_a_bad_reply_is_short_and_its_usage_counted_once() -> None:
    wrong = {"data": [{"embedding": [1.0]}, {"embedding": ["x" * 500]}]}
    with embedding_server(script=lambda _: reply([], **wrong)) as server:
        (one,) = client_for(server).answer(prompts("a"))
    assert len(one.reason) <= 200
    with embedding_server(script=lambda _: reply([[1.0]])) as server:
        first, second = client_for(server).answer(prompts("a", "b"))
    assert (first.usage.input_tokens, second.usage.input_tokens) == (10, None)


@pytest.mark.parametrize(
    ("dimensions", "reason"), [(2, ""), (3, "3 dimensions were requested, and the vectors have 2")]
)
def test_vectors_have_the_requested_dimensions(dimensions: int, reason: str) -> None:
    with embedding_server(lambda texts: [[1.0, 2.0] for _ in texts]) as server:
        (reply,) = client_for(server, extra_body={"dimensions": dimensions}).answer(prompts("a"))
    assert reply.reason == reason
    assert reply.outcome is (Outcome.MALFORMED if reason else Outcome.ANSWERED)


@pytest.mark.parametrize(("named", "model"), [("m-1", "m-1"), ("x" * 500, "x" * 200), (None, ""), (7, "")])
def test_the_model_of_a_vector_is_a_short_name_or_empty(named: object, model: str) -> None:
    with embedding_server(script=lambda texts: reply(words(texts), model=named)) as server:
        (one,) = client_for(server).answer(prompts("a"))
    assert (one.served_model, one.outcome) == (model, Outcome.ANSWERED)


def test_a_refused_request_fails_only_its_own_texts() -> None:
    with embedding_server(
        script=lambda texts: refusal(400, "too long") if "long" in texts else reply(words(texts))
    ) as server:
        replies = client_for(server, batch_texts=2).answer(prompts("a", "long", "c"))
    assert [one.outcome for one in replies] == [Outcome.FAILED, Outcome.FAILED, Outcome.ANSWERED]
    assert "too long" in replies[0].reason
    assert replies[1].reason == replies[0].reason


def test_describe_returns_only_settings_that_determine_vectors() -> None:
    with embedding_server() as server:
        assert client_for(server, batch_texts=3).describe() == {"model": "m", "reply": "embedding"}
        described = client_for(server, extra_body={"dimensions": 8}).describe()
    assert described == {"model": "m", "reply": "embedding", "extra_body": {"dimensions": 8}}
    assert json.loads(json.dumps(described)) == described
