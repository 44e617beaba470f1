from __future__ import annotations

import multiprocessing
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import (
    CachedClient,
    CachedReply,
    CallUsage,
    Decoding,
    OpenAIClient,
    Outcome,
    Prompt,
    Reply,
    ReplyCache,
)
from ragtasks.errors import CacheError, JudgeError
from ragtasks.files import canonical_hash
from tests._commands import run_command
from tests.clients._opening import hold_for_writing, open_and_put, write_all
from tests.clients._server import Action, ChatServer, chat_server, completion, refusal

CHECKOUT = Path(__file__).resolve().parents[2]
SLOTS = 4  # of tests.clients._asking


def cached(server: ChatServer, cache: ReplyCache, decoding: Decoding | None = None, model: str = "m") -> CachedClient:
    endpoint = {"model": model, "base_url": server.base_url, "attempts": 1}
    return CachedClient(OpenAIClient(endpoint, "key-0123456789", decoding), cache)


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt.of(text) for text in texts]


def texts(replies: list[Reply]) -> list[str | None]:
    return [reply.text for reply in replies]


def test_a_second_call_sends_nothing_and_returns_equal_replies(tmp_path: Path) -> None:
    with chat_server(lambda text, _: completion(f"echo {text}")) as server:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            first = cached(server, cache).answer(prompts("a", "b"))
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            second = cached(server, cache).answer(prompts("b", "a"))
    assert texts(first) == ["echo a", "echo b"]
    assert second == first[::-1]
    assert len(server.asked) == 2


def test_every_setting_that_determines_a_reply_is_in_the_key(tmp_path: Path) -> None:
    with chat_server(lambda *_: completion()) as server, ReplyCache(tmp_path / "c") as cache:
        cached(server, cache).answer([Prompt.of("a")])
        cached(server, cache).answer([Prompt.of("a", system="s")])
        cached(server, cache).answer([replace(Prompt.of("a"), key_parts=("attempt 2",))])
        cached(server, cache, model="n").answer([Prompt.of("a")])
        for decoding in (Decoding(temperature=1.0), Decoding(seed=None), Decoding(max_tokens=5)):
            cached(server, cache, decoding).answer([Prompt.of("a")])
        assert len(cache) == len(server.asked) == 7


@pytest.mark.parametrize(
    ("action", "is_kept"),
    [
        (completion(), True),
        (completion("cut", finish_reason="length"), False),
        (completion("cut", finish_reason="RECITATION"), False),
        (completion("cut", finish_reason="unheard of"), False),
        (completion(None, refusal="no"), True),
        (completion(""), False),
        (completion(None), False),
        (refusal(400, "policy", "content_filter"), True),
        (refusal(500), False),
        (refusal(400), False),
        (Action(b"{}"), False),
    ],
)
def test_answers_and_refusals_are_stored_and_failures_requested_again(
    tmp_path: Path, action: Action, is_kept: bool
) -> None:
    with chat_server(lambda *_: action) as server, ReplyCache(tmp_path / "c") as cache:
        first, second = (cached(server, cache).answer(prompts("a"))[0] for _ in range(2))
    assert first == second
    assert len(server.asked) == (1 if is_kept else 2)


def test_a_fatal_error_keeps_earlier_replies(tmp_path: Path) -> None:
    script = lambda _text, _before: completion() if len(server.asked) <= 3 else refusal(401)  # noqa: E731
    with chat_server(script) as server, ReplyCache(tmp_path / "c") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": server.base_url, "slots": 1}), cache)
        with pytest.raises(JudgeError):
            client.answer(prompts(*"abcdef"))
        assert len(cache) == 3
        server.script = lambda *_: completion()
        assert texts(client.answer(prompts(*"abcdef"))) == ["fine"] * 6
    assert len(server.asked) == 3 + 1 + 3


def test_a_reply_records_whether_it_had_a_cost(tmp_path: Path) -> None:
    """This includes a reply that another process stores after this call has begun; its journal receives it too."""
    collected: dict[int, bool] = {}

    class Journal:
        def recall(self, index: int) -> None:
            return None

        def record(self, index: int, reply: Reply) -> None:
            collected[index] = reply.from_cache

    class Late:
        """A client that finds replies stored by another process in the meantime."""

        name = "m"

        def describe(self) -> dict[str, Any]:
            return OpenAIClient("openai/m").describe()

        def answer(self, asked: list[Prompt], progress: Any, journal: Any) -> list[Reply]:
            keys = [canonical_hash({"client": self.describe(), "messages": prompt.payload()}) for prompt in asked]
            with ReplyCache(tmp_path / "c") as others:
                others.put(CachedReply(key, {}, Reply(Outcome.ANSWERED, "theirs")) for key in keys)
            return [journal.recall(index) for index in range(len(asked))]

    class Answering(Late):
        def answer(self, asked: list[Prompt], progress: Any, journal: Any) -> list[Reply]:
            replies = [Reply(Outcome.ANSWERED, prompt.messages[0].content) for prompt in asked]
            for index, reply in enumerate(replies):
                journal.record(index, reply)
            return replies

    with ReplyCache(tmp_path / "c") as cache:
        CachedClient(Answering(), cache).answer(prompts("b", "a", "b"), journal=Journal())
        assert collected == {0: False, 1: False, 2: True}
        replies = CachedClient(Answering(), cache).answer(prompts("a", "b"), journal=Journal())
        assert collected == {0: True, 1: True, 2: True}
        assert all(reply.from_cache for reply in replies)
        collected.clear()
        CachedClient(Late(), cache).answer(prompts("c", "d"), journal=Journal())
        assert collected == {0: True, 1: True}


@given(
    st.builds(
        Reply,
        st.sampled_from(Outcome),
        st.none() | st.text(st.characters(codec="utf-8")),
        st.text(st.characters(codec="utf-8")),
        usage=st.builds(CallUsage, st.none() | st.integers(0, 9)),
        raw=st.text(st.characters(codec="utf-8")),
    )
)
def test_a_stored_reply_is_returned_equal(reply: Reply) -> None:
    with ReplyCache(Path(":memory:")) as cache:
        cache.put([CachedReply("k", {}, reply, "rewrite")])
        cache.put([CachedReply("k", {}, Reply(Outcome.EMPTY))])  # the first reply is kept
        assert cache.get("k") == CachedReply("k", {}, reply, "rewrite")
        assert cache.get("other") is None


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_bytes(b"this is no database, " * 100), id="text"),
        pytest.param(_foreign, id="foreign"),
        pytest.param(lambda path: path.mkdir(), id="folder"),
    ],
)
def test_a_path_without_a_reply_cache_is_refused_and_left_unchanged(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "c"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(CacheError, match="next step"):
        ReplyCache(path)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize("version", [1, 2, 4])
def test_another_format_is_refused_with_the_way_to_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = tmp_path / "replies.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)")
    connection.execute("INSERT INTO replies VALUES ('k', '{}', '{}')")
    connection.execute(f"PRAGMA application_id={0x72677473}")
    connection.execute(f"PRAGMA user_version={version}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    done = run_command("data", "cache")
    assert done.status == 1
    for words in (
        str(path),
        f"format {version}, and this version of ragtasks reads format 3 only",
        "move the file away",
    ):
        assert words in done.err
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_stored_file_of_format_3_is_readable(tmp_path: Path) -> None:
    """The file has unused tables `claims` and `owners`, and a request in flight."""

    class There:
        name, origin = "far/m", "https://host.example:443/v1"

        def describe(self) -> dict[str, Any]:
            return {"model": "far/m", "decoding": Decoding().describe()}

        def answer(self, asked: list[Prompt], progress: Any, journal: Any) -> list[Reply]:
            raise AssertionError(asked)

    path = tmp_path / "replies.sqlite"
    shutil.copy(Path(__file__).with_name("replies_format_3.sqlite"), path)
    with ReplyCache(path) as cache:
        before = cache.execute("SELECT * FROM replies ORDER BY key")
        names = ["answered", "refused", "filtered", "first attempt", "second attempt"]
        replies = CachedClient(There(), cache).answer(prompts(*names))
        assert cache.execute("SELECT * FROM replies ORDER BY key") == before
        assert len(before) == 5
    answered, *others = replies
    assert (answered.text, answered.raw[:12], answered.thinking) == ("verdict: yes", '{"choices":[', "hm")
    assert (answered.usage.input_tokens, answered.usage.output_tokens, answered.usage.cached_tokens) == (12, 3, 4)
    assert (answered.served_model, answered.usage.dollars, answered.usage.seconds) == ("m-1", 0.002, 0.5)
    found = [(reply.outcome, reply.text) for reply in others]
    assert found == [
        (Outcome.REFUSED, None),
        (Outcome.FILTERED, None),
        (Outcome.ANSWERED, "Öl — what?"),
        (Outcome.ANSWERED, "verdict: no"),
    ]
    assert all(reply.from_cache for reply in replies)
    with ReplyCache(path) as cache:
        cache.check()
        cache.put([CachedReply("new", {}, Reply(Outcome.ANSWERED, "x"))])
        assert len(cache) == 6


def _read_all(path: Path, n_replies: int) -> None:
    with ReplyCache(path) as cache:
        for number in range(n_replies):
            cache.get(str(number))


def test_a_corrupt_file_is_reported_by_name(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with ReplyCache(path) as cache:
        for number in range(200):
            cache.put([CachedReply(str(number), {"text": "x" * 200}, Reply(Outcome.ANSWERED, "y" * 200))])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(bytes(content))
    with pytest.raises(CacheError, match="reply cache"):
        _read_all(path, 200)


def test_a_full_disk_is_reported_and_stored_replies_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with ReplyCache(path) as cache:
        cache.put([CachedReply("first", {}, Reply(Outcome.ANSWERED, "kept"))])
        (n_pages,) = cache.execute("PRAGMA page_count")[0]
        cache.execute(f"PRAGMA max_page_count={n_pages + 1}")
        with pytest.raises(CacheError, match="full"):
            cache.put([CachedReply("second", {}, Reply(Outcome.ANSWERED, "x" * 100_000))])
        kept = cache.get("first")
    assert kept.reply.text == "kept"


def test_a_file_is_closed_only_while_no_thread_uses_it(tmp_path: Path) -> None:
    # SQLite ends the process with a segmentation fault if a connection is closed in the middle of a statement.
    cache, order = ReplyCache(tmp_path / "replies.sqlite"), []
    cache.put([CachedReply("k", {}, Reply(Outcome.ANSWERED, "kept"))])
    is_reading, may_end = threading.Event(), threading.Event()

    def usable(_: CachedReply) -> bool:
        is_reading.set()
        may_end.wait()
        order.append("read")
        return True

    def close() -> None:
        cache.close()
        order.append("closed")

    reader = threading.Thread(target=cache.begin, args=("k", usable))
    closer = threading.Thread(target=close)
    reader.start()
    is_reading.wait()
    closer.start()
    closer.join(0.1)
    may_end.set()
    for thread in (reader, closer):
        thread.join()
    assert order == ["read", "closed"]


def test_a_lone_surrogate_in_a_prompt_does_no_harm(tmp_path: Path) -> None:
    with chat_server(lambda text, _: completion(text)) as server, ReplyCache(tmp_path / "c") as cache:
        assert texts(cached(server, cache).answer(prompts("a \ud83d b", "c"))) == ["a ? b", "c"]


@pytest.mark.slow
def test_many_processes_can_open_the_same_new_file_at_once(tmp_path: Path) -> None:
    n_processes, n_files = 4, 40
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(n_processes)
    processes = [
        context.Process(target=open_and_put, args=(tmp_path, n_files, str(number), together))
        for number in range(n_processes)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * n_processes
    for number in range(n_files):
        with ReplyCache(tmp_path / str(number)) as cache:
            assert len(cache) == n_processes


@pytest.mark.slow
def test_a_process_waits_for_another_writer(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    is_held, may_end = context.Event(), context.Event()
    holder = context.Process(target=hold_for_writing, args=(tmp_path / "c", is_held, may_end))
    holder.start()
    assert is_held.wait(60)
    writer = context.Process(target=write_all, args=(tmp_path / "c", ["k"]))
    writer.start()
    writer.join(3.0)
    assert writer.is_alive(), "it waits for longer than a process takes to start"
    may_end.set()
    for process in (holder, writer):
        process.join()
        assert process.exitcode == 0
    with ReplyCache(tmp_path / "c") as cache:
        assert (len(cache), cache.get("k") is not None, cache.get("held") is not None) == (2, True, True)


@pytest.mark.slow
def test_two_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    keys = [[f"{number}" for number in range(300)], [f"{number}" for number in range(150, 450)]]
    processes = [context.Process(target=write_all, args=(tmp_path / "c", part)) for part in keys]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    with ReplyCache(tmp_path / "c") as cache:
        assert len(cache) == 450
        cache.check()
        assert cache.execute("SELECT * FROM unused") == []


def test_no_key_is_stored(tmp_path: Path) -> None:
    key = "key-0123456789"
    with chat_server(lambda *_: completion(f"you sent {key}")) as server, ReplyCache(tmp_path / "c") as cache:
        (reply,) = cached(server, cache).answer(prompts("a"))
        assert reply.text == "you sent ***"
        files = list(tmp_path.iterdir())  # while open: the write-ahead log too
        assert len(files) == 3
        assert not any(key.encode() in file.read_bytes() for file in files)


def _start(server: ChatServer, path: Path, n_prompts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.clients._asking", server.base_url, str(path), str(n_prompts)]
    return subprocess.Popen(command, cwd=CHECKOUT)


@pytest.mark.slow
def test_a_killed_process_pays_twice_only_for_requests_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "c"
    n_prompts, n_kills = 60, 2
    with chat_server(lambda text, _: Action(completion(text).body, delay_seconds=0.03)) as server:
        for kill in range(n_kills):
            process = _start(server, path, n_prompts)
            until = len(server.asked) + random.Random(kill).randint(3, 15)
            while len(server.asked) < until and process.poll() is None:
                time.sleep(0.005)
            process.kill()
            process.wait()
        assert _start(server, path, n_prompts).wait() == 0
    with ReplyCache(path) as cache:
        assert len(cache) == n_prompts
    times = Counter(server.asked)
    assert len(times) == n_prompts
    assert len(server.asked) <= n_prompts + n_kills * SLOTS
