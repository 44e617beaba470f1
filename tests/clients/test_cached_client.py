"""Cached clients: stored and repeated requests, addresses, and concurrent calls and processes."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragtasks.clients import (
    CachedClient,
    CachedReply,
    CallUsage,
    Journal,
    OpenAIClient,
    Outcome,
    Prompt,
    Reply,
    ReplyCache,
    calls_of,
    check_reply_cache,
)
from ragtasks.clients._protocol import Chain
from ragtasks.errors import CacheError, JudgeError
from ragtasks.files import canonical_hash
from ragtasks.progress import Progress, no_progress
from tests.clients._server import Action, ChatServer, chat_server, completion

CHECKOUT = Path(__file__).resolve().parents[2]


class Repeating:
    """A client that echoes every prompt in order, and counts them."""

    name = "m"
    origin = ""

    def __init__(self, replies: dict[str, str] | None = None) -> None:
        self.asked: list[str] = []
        self.replies = replies or {}

    def describe(self) -> dict[str, Any]:
        return {"model": "m"}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        return [self._one(index, prompt, journal) for index, prompt in enumerate(prompts)]

    def _one(self, index: int, prompt: Prompt, journal: Journal | None) -> Reply:
        cached = journal.recall(index) if journal else None
        if cached is not None:
            return cached
        text = prompt.messages[0].content
        self.asked.append(text)
        reply = Reply(Outcome.ANSWERED, self.replies.get(text, text))
        if journal:
            journal.record(index, reply)
        return reply


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt.of(text) for text in texts]


def readable(text: str) -> bool:
    return text.startswith("verdict")


def test_an_unreadable_reply_is_requested_again_until_one_is_readable(tmp_path: Path) -> None:
    client = Repeating({"q": "what?"})
    with ReplyCache(tmp_path / "c") as cache:
        asked = [Prompt.of("q", kind="idk", is_readable=readable)]
        for n_asked in (1, 2):
            (reply,) = CachedClient(client, cache).answer(asked)
            assert (reply.text, len(client.asked), len(cache)) == ("what?", n_asked, 0)
        client.replies = {"q": "verdict: yes"}
        for _ in range(2):
            (reply,) = CachedClient(client, cache).answer(asked)
            assert (reply.text, len(client.asked), len(cache)) == ("verdict: yes", 3, 1)


def test_earlier_attempts_are_stored_with_the_readable_reply(tmp_path: Path) -> None:
    client = Repeating({"first": "what?", "second": "verdict"})
    with ReplyCache(tmp_path / "c") as cache:
        cached = CachedClient(client, cache)
        first = Prompt.of("first", is_readable=readable)
        (reply,) = cached.answer([first])
        second = Prompt(Prompt.of("second").messages, is_readable=readable, earlier=((first, reply),))
        cached.answer([second])
        assert [found.text for found in cached.answer([first, second])] == ["what?", "verdict"]
    assert client.asked == ["first", "second"]


def test_stored_failures_count_as_missing(tmp_path: Path) -> None:
    kept = {"a": ("answered", "verdict a"), "b": ("empty", None), "c": ("truncated", None)}
    kept |= {"d": ("refused", None), "e": ("answered", "nothing that can be read"), "f": ("filtered", None)}
    client = Repeating({text: f"verdict {text}" for text in kept})
    with ReplyCache(tmp_path / "c") as cache:
        cache.put(_stored(text, Reply(Outcome(outcome), answer)) for text, (outcome, answer) in kept.items())
        asked = [Prompt.of(text, is_readable=readable) for text in kept]
        replies = CachedClient(client, cache).answer(asked)
        assert sorted(client.asked) == ["b", "c", "e"]
        assert [reply.text for reply in replies] == ["verdict a", "verdict b", "verdict c", None, "verdict e", None]
        CachedClient(client, cache).answer(asked)
    assert len(client.asked) == 3


def test_incomplete_replies_stored_as_answers_are_requested_again(tmp_path: Path) -> None:
    def raw(reason: str, **fields: Any) -> str:
        message = {"role": "assistant", "content": "verdict 1"}
        return orjson.dumps({"choices": [{"finish_reason": reason, "message": message}], **fields}).decode()

    kept = {
        "a": raw("stop"),
        "b": raw("MAX_TOKENS"),
        "c": raw("stop", error="lost"),
        "d": '{"answer": "", "error": "x"}',
    }
    kept |= {"e": raw("content_filter"), "f": "verdict of a model in this process"}
    client = Repeating()
    with ReplyCache(tmp_path / "c") as cache:
        cache.put(_stored(text, Reply(Outcome.ANSWERED, "old", raw=body)) for text, body in kept.items())
        replies = CachedClient(client, cache).answer(prompts(*kept))
    assert sorted(client.asked) == ["b", "c", "d", "e"]
    assert [reply.text for reply in replies] == ["old", "b", "c", "d", "e", "old"]


def _stored(text: str, reply: Reply) -> CachedReply:
    """Return a stored reply to `Repeating`."""
    request = {"client": {"model": "m"}, "messages": Prompt.of(text).payload()}
    return CachedReply(canonical_hash(request), request, reply)


def _endpoint(server: ChatServer, **options: Any) -> OpenAIClient:
    return OpenAIClient({"model": "m", "base_url": server.base_url, **options})


def test_equal_prompts_share_one_reply_and_only_the_first_has_a_cost(tmp_path: Path) -> None:
    def spent_by(*texts: str) -> list[str]:
        replies = CachedClient(_endpoint(server), cache).answer(prompts(*texts))
        return [call.spent.value for reply in replies for call in calls_of(reply)]

    with chat_server(lambda text, _: completion(text)) as server, ReplyCache(tmp_path / "c") as cache:
        assert spent_by("a", "b", "a", "a") == ["now", "now", "shared", "shared"]
        assert spent_by("a", "a", "c") == ["before", "shared", "now"]


def test_another_address_is_requested_unless_replies_are_shared(tmp_path: Path) -> None:
    script = lambda text, _: completion(text)  # noqa: E731
    with chat_server(script) as one, chat_server(script) as other, ReplyCache(tmp_path / "c") as cache:
        for server in (one, other, one, other):
            CachedClient(_endpoint(server), cache).answer(prompts("a", "b"))
        assert (len(one.asked), len(other.asked)) == (2, 2)
        for server in (one, other):
            CachedClient(_endpoint(server, shared_replies=True), cache).answer(prompts("a", "b"))
        assert (len(one.asked), len(other.asked)) == (4, 2)
        assert len(cache) == 6


def _naming(model: str) -> Action:
    body = orjson.loads(completion().body)
    return Action(orjson.dumps({**body, "model": model}))


def test_a_change_of_the_served_model_is_warned_of_once_and_stored_with_each_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = {"a": "m-1", "b": "m-1", "c": "m-2", "d": "m-1", "e": "m-3"}
    with chat_server(lambda text, _: _naming(models[text])) as server, ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(_endpoint(server, slots=1), cache)
        assert [client.answer(prompts(text))[0].served_model for text in models] == list(models.values())
        assert client.answer(prompts("c"))[0].served_model == "m-2"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "'m-1' before" in caplog.text
    assert "'m-2' now" in caplog.text


class Held(Repeating):
    """Delays its first reply until the test releases it."""

    def __init__(self, replies: dict[str, str] | None = None) -> None:
        super().__init__(replies)
        self.is_asked, self.may_reply = threading.Event(), threading.Event()

    def _one(self, index: int, prompt: Prompt, journal: Journal | None) -> Reply:
        assert journal is not None
        if not self.is_asked.is_set():
            assert journal.recall(index) is None
            self.is_asked.set()
            assert self.may_reply.wait(30)
        return super()._one(index, prompt, journal)


def test_a_call_waits_for_another_call_of_its_process_and_sends_the_missing_prompts(tmp_path: Path) -> None:
    held, client = Held({"b": "unreadable"}), Counting({"b": "verdict"})
    said: list[tuple[str, int, int | None]] = []
    found: list[list[Reply]] = []

    def ask_all() -> None:
        asked = [Prompt.of(text, is_readable=readable if text == "b" else None) for text in "abc"]
        with ReplyCache(tmp_path / "c") as cache:
            found.append(CachedClient(client, cache).answer(asked, lambda *call: said.append(call)))

    def ask_two() -> None:
        with ReplyCache(tmp_path / "c") as cache:
            CachedClient(held, cache).answer(prompts("a", "b"))

    threads = [threading.Thread(target=ask) for ask in (ask_two, ask_all)]
    threads[0].start()
    assert held.is_asked.wait(30)
    threads[1].start()
    while client.asked != ["c"]:
        threads[1].join(0.01)
    held.may_reply.set()
    for thread in threads:
        thread.join()
    assert [reply.text for reply in found[0]] == ["a", "verdict", "c"]
    assert [reply.from_cache for reply in found[0]] == [True, False, False]
    assert (sorted(held.asked), client.asked) == (["a", "b"], ["c", "b"])
    assert [done for _, done, total in said if total == 3] == [1, 2, 3]


def test_many_calls_of_one_process_send_each_prompt_once(tmp_path: Path) -> None:
    def ask() -> None:
        with ReplyCache(tmp_path / "c") as cache:
            replies.append(CachedClient(_endpoint(server), cache).answer(prompts(*"abcdefgh")))

    replies: list[list[Reply]] = []
    with chat_server(lambda text, _: Action(completion(text).body, delay_seconds=0.02)) as server:
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [[reply.text for reply in found] for found in replies] == [[*"abcdefgh"]] * 6
    assert sorted(server.asked) == [*"abcdefgh"]


def test_the_usage_of_an_unusable_reply_is_returned_with_the_next_request(tmp_path: Path) -> None:
    class Counted(Repeating):
        def _one(self, index: int, prompt: Prompt, journal: Journal | None) -> Reply:
            cached = journal.recall(index)
            if cached is not None:
                return cached
            self.asked.append("q")
            reply = Reply(Outcome.ANSWERED, self.replies["q"], usage=CallUsage(100, len(self.asked)))
            journal.record(index, reply)
            return reply

    client = Counted({"q": "what?"})
    asked = [Prompt.of("q", is_readable=readable)]
    with ReplyCache(tmp_path / "c") as cache:
        for n_before in (0, 1):
            (reply,) = CachedClient(client, cache).answer(asked)
            assert [(call.output_tokens, call.is_used) for call in reply.unused] == [(1, False)][:n_before]
        client.replies = {"q": "verdict"}
        for is_known in (False, True):
            (reply,) = CachedClient(client, cache).answer(asked)
            assert (reply.text, reply.from_cache) == ("verdict", is_known)
            assert [(call.output_tokens, call.is_used) for call in reply.unused] == [(1, False), (2, False)]
        assert len(client.asked) == 3


@pytest.mark.parametrize(("error", "n_unseen"), [(KeyboardInterrupt, 1), (RuntimeError, 1), (JudgeError, 0)])
def test_an_interrupted_request_may_have_a_cost_and_a_request_ended_by_our_error_has_none(
    tmp_path: Path, error: type[BaseException], n_unseen: int
) -> None:
    class Ending(Repeating):
        def answer(self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Any = None) -> Any:
            assert journal.recall(0) is None
            raise error("ended")

    with ReplyCache(tmp_path / "c") as cache:
        with suppress(error):
            CachedClient(Ending(), cache).answer(prompts("a"))
        (reply,) = CachedClient(Repeating(), cache).answer(prompts("a"))
        assert reply.text == "a", "nobody sends it any more"
        calls = [(call.spent.value, call.is_used, call.input_tokens) for call in calls_of(reply)]
        assert calls == [("before", False, None)] * n_unseen


def test_a_waiting_call_ends_when_its_journal_is_cancelled(tmp_path: Path) -> None:
    class Ending:
        def recall(self, index: int) -> None:
            raise InterruptedError

        def record(self, index: int, reply: Reply) -> None:
            raise AssertionError

    held = Held()
    with ReplyCache(tmp_path / "c") as cache:
        other = threading.Thread(target=CachedClient(held, cache).answer, args=(prompts("a"),))
        other.start()
        assert held.is_asked.wait(30)
        with pytest.raises(InterruptedError):
            CachedClient(Repeating(), cache).answer(prompts("a"), journal=Ending())
        held.may_reply.set()
        other.join()
    assert held.asked == ["a"]


def test_the_check_detects_an_unwritable_folder(tmp_path: Path) -> None:
    check_reply_cache(tmp_path / "new" / "c")
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match="reply cache"):
        check_reply_cache(tmp_path / "file" / "c")
    with ReplyCache(tmp_path / "c") as cache:
        cache.put(CachedReply(str(number), {}, Reply(Outcome.ANSWERED, "y" * 900)) for number in range(200))
    content = bytearray((tmp_path / "c").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8192] = b"\x5a" * 8192
    (tmp_path / "c").write_bytes(bytes(content))
    with pytest.raises(CacheError, match="reply cache"):
        check_reply_cache(tmp_path / "c")


def _start(server: ChatServer, file: Path, n_prompts: int, slots: int) -> subprocess.Popen[bytes]:
    arguments = [server.base_url, str(file), str(n_prompts), str(slots)]
    return subprocess.Popen([sys.executable, "-m", "tests.clients._asking", *arguments], cwd=CHECKOUT)


@pytest.mark.slow
def test_a_second_process_sends_only_prompts_that_the_first_has_not_stored(tmp_path: Path) -> None:
    n_prompts, n_stored, slots = 40, 20, 4
    is_held, may_reply = threading.Event(), threading.Event()

    def reply(text: str, n_before: int) -> Action:
        if not n_before and len(server.asked) > n_stored and not second:
            if len(server.asked) == n_stored + slots:
                is_held.set()
            assert may_reply.wait(60)
        return completion(text)

    second: list[subprocess.Popen[bytes]] = []
    with chat_server(reply) as server:
        first = _start(server, tmp_path / "c", n_prompts, slots)
        assert is_held.wait(60)
        sent = list(server.asked)
        second.append(_start(server, tmp_path / "c", n_prompts, slots))
        assert second[0].wait() == 0
        assert sorted(server.asked[len(sent) :]) == sorted({*map(str, range(n_prompts))} - {*sent[:n_stored]})
        may_reply.set()
        assert first.wait() == 0
    assert len(server.asked) == n_prompts + slots, "the first sent nothing that the second had stored"


@pytest.mark.engine
def test_processes_that_start_together_send_each_prompt_at_most_once(tmp_path: Path) -> None:
    with chat_server(lambda text, _: Action(completion(text).body, delay_seconds=0.3)) as server:
        processes = [_start(server, tmp_path / "c", 160, 32) for _ in range(2)]
        assert [process.wait() for process in processes] == [0, 0]
    assert len({*server.asked}) == 160
    assert max(Counter(server.asked).values()) <= 2


class Counting(Repeating):
    """Reports its progress after each reply, as clients do."""

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        replies = []
        for index, prompt in enumerate(prompts):
            replies.append(self._one(index, prompt, journal))
            progress("m\tworking", index + 1, len(prompts))
        return replies


def test_progress_counts_distinct_prompts_and_cached_replies_first(tmp_path: Path) -> None:
    text: list[tuple[str, int, int | None]] = []
    with ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(Counting(), cache)
        client.answer(prompts("a", "b"), lambda *call: text.append(call))
        assert text == [("m\tworking", 1, 2), ("m\tworking", 2, 2)]
        text.clear()
        client.answer(prompts("a", "c", "b", "c", "d"), lambda *call: text.append(call))
        assert text == [("m\t2 cached", 2, 4), ("m\tworking", 3, 4), ("m\tworking", 4, 4)]
        text.clear()
        client.answer(prompts("a", "b"), lambda *call: text.append(call))
        assert text == [("m\t2 cached", 2, 2)]


def test_the_cost_of_a_reply_is_counted_for_the_first_of_equal_prompts(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(Repeating(), cache)
        assert [reply.from_cache for reply in client.answer(prompts("a", "b", "a"))] == [False, False, True]
        assert [reply.from_cache for reply in client.answer(prompts("a", "c", "a"))] == [True, False, True]


@pytest.mark.parametrize(
    "other",
    [
        Prompt.of("a", system="s"),
        Prompt(Prompt.of("a").messages, key_parts=("attempt 2",)),
        Prompt(Prompt.of("a").messages, body={"id": 7}),
        Prompt.of("b"),
    ],
    ids=["another message", "another attempt", "another body", "another text"],
)
def test_every_setting_that_determines_a_reply_changes_the_key(other: Prompt, tmp_path: Path) -> None:
    client = Repeating()
    with ReplyCache(tmp_path / "c") as cache:
        CachedClient(client, cache).answer([Prompt.of("a"), other])
        assert (len(client.asked), len(cache)) == (2, 2)
        CachedClient(client, cache).answer([Prompt.of("a", kind="another kind"), other])
        assert len(client.asked) == 2, "what it is asked for decides nothing"


def test_a_prompt_parser_decides_about_texts_and_the_outcome_about_other_replies(tmp_path: Path) -> None:
    class Outcomes(Repeating):
        def _one(self, index: int, prompt: Prompt, journal: Journal | None) -> Reply:
            cached = journal.recall(index) if journal else None
            if cached is not None:
                return cached
            text = prompt.messages[0].content
            self.asked.append(text)
            reply = Reply(Outcome(text), "text" if text == "answered" else None, reason="why")
            if journal:
                journal.record(index, reply)
            return reply

    names = [outcome.value for outcome in Outcome]
    for is_readable, kept in ((None, {"answered", "refused", "filtered"}), (readable, {"refused", "filtered"})):
        client = Outcomes()
        with ReplyCache(tmp_path / f"{is_readable is None}") as cache:
            asked = [Prompt.of(name, is_readable=is_readable) for name in names]
            for _ in range(2):
                CachedClient(client, cache).answer(asked)
            assert {name for name in names if client.asked.count(name) == 1} == kept
            assert len(cache) == len(kept)


def test_a_cache_given_as_a_path_is_open_during_calls_only(tmp_path: Path) -> None:
    client = Repeating()
    cached = CachedClient(client, tmp_path / "c")
    assert (cached.name, dict(cached.describe())) == ("m", {"model": "m"})
    for _ in range(2):
        assert [reply.text for reply in cached.answer(prompts("a"))] == ["a"]
    assert client.asked == ["a"]
    (tmp_path / "c").rename(tmp_path / "moved")
    with ReplyCache(tmp_path / "moved") as moved:
        assert len(moved) == 1


class Following:
    """A journal with follow-up prompts: after each first text in `then`, the second text at the same index."""

    def __init__(self, asked: Sequence[Prompt], then: dict[str, str]) -> None:
        self.current = list(asked)
        self.then = then
        self.heard: list[tuple[int, str | None]] = []

    def recall(self, index: int) -> Reply | None:
        return None

    def record(self, index: int, reply: Reply) -> None:
        self.heard.append((index, reply.text))

    def following(self, index: int) -> Prompt | None:
        text = self.then.get(self.current[index].messages[-1].content)
        if text is None:
            return None
        self.current[index] = Prompt.of(text)
        return self.current[index]


class Chained(Repeating):
    """Sends follow-up prompts at once, as endpoints do."""

    def _one(self, index: int, prompt: Prompt, journal: Journal | None) -> Reply:
        reply = super()._one(index, prompt, journal)
        following = journal.following(index) if isinstance(journal, Chain) else None
        return reply if following is None else self._one(index, following, journal)


def test_follow_up_prompts_are_sent_at_once_through_a_cache_and_stored(tmp_path: Path) -> None:
    client, asked = Chained(), prompts("a", "b", "a")
    with ReplyCache(tmp_path / "c") as cache:
        journal = Following(asked, {"a": "a2", "a2": "a3"})
        CachedClient(client, cache).answer(asked, journal=journal)
        assert dict(journal.heard) == {0: "a3", 1: "b", 2: "a3"}
        assert sorted(client.asked) == ["a", "a2", "a3", "b"], "each text once"
        assert client.asked.index("a2") == client.asked.index("a") + 1
        again = Chained()
        replies = CachedClient(again, cache).answer(prompts("a3", "a2", "a"))
        assert ([reply.text for reply in replies], again.asked) == (["a3", "a2", "a"], [])
        assert all(reply.from_cache for reply in replies)


def test_earlier_attempts_at_an_address_are_stored_for_that_address(tmp_path: Path) -> None:
    class There(Repeating):
        origin = "https://h:443/v1"

    client = There({"first": "what?", "second": "verdict"})
    first = Prompt.of("first", is_readable=readable)
    with ReplyCache(tmp_path / "c") as cache:
        (reply,) = CachedClient(client, cache).answer([first])
        second = Prompt(Prompt.of("second").messages, is_readable=readable, earlier=((first, reply),))
        CachedClient(client, cache).answer([second])
        (again,) = CachedClient(client, cache).answer([first])
        assert (again.text, client.asked) == ("what?", ["first", "second"])
        elsewhere = Repeating({"first": "verdict"})
        CachedClient(elsewhere, cache).answer([first])
        assert elsewhere.asked == ["first"]
