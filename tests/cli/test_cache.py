"""`ragtasks data cache` on a file with a few replies, and without a file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ragtasks.clients import CachedReply, Outcome, Reply, ReplyCache
from ragtasks.metrics import EmbeddingCache
from tests._commands import run_command
from tests._messages import same_message
from tests.cli.test_retrieve import printed


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    return tmp_path / "replies.sqlite"


@pytest.fixture
def filled(file: Path) -> Path:
    request = {"client": {"model": "openai/m"}, "address": "https://api.openai.com:443/v1"}
    answered, refused = Reply(Outcome.ANSWERED, "x"), Reply(Outcome.REFUSED)
    with ReplyCache(file) as cache:
        cache.put(
            [
                CachedReply("1", request, answered, "idk"),
                CachedReply("2", request, answered, "idk"),
                CachedReply("3", request, refused, "idk"),
                CachedReply("4", request, Reply(Outcome.TRUNCATED), "idk", is_history=True),
                CachedReply("5", {"client": {"model": "local"}}, answered),
            ]
        )
        cache.execute("UPDATE replies SET stored = ? WHERE key = '1'", (time.time() - 10 * 86_400,))
    return file


def test_a_missing_cache_is_reported_and_not_created(file: Path) -> None:
    embeddings = f"{file.with_name('embeddings.sqlite')}: no cached embeddings yet"
    assert printed("data", "cache") == [f"{file}: no cached replies yet", embeddings]
    assert printed("data", "cache", "--embeddings", "--remove") == [embeddings]
    assert printed("data", "cache", "--model", "m") == [f"{file}: no cached replies yet"]
    assert not file.exists()


def test_replies_are_counted_by_outcome(filled: Path) -> None:
    first, *table, _ = printed("data", "cache")
    assert first.startswith(f"{filled}: 5 replies, 0.")
    assert [line.split() for line in table] == [
        ["model", "address", "kind", "outcome", "replies"],
        ["local", "-", "-", "answered", "1"],
        ["openai/m", "https://api.openai.com:443/v1", "idk", "answered", "2"],
        ["openai/m", "https://api.openai.com:443/v1", "idk", "refused", "1"],
        ["openai/m", "https://api.openai.com:443/v1", "idk", "truncated", "(requested", "again)", "1"],
    ]


def test_selected_replies_are_only_removed_with_remove(filled: Path) -> None:
    options = ["--older-than", "9", "--model", "openai/m", "--outcome", "answered"]
    (line,) = printed("data", "cache", *options)
    assert line == f"1 replies would be removed, 4 remain in {filled}"
    (line,) = printed("data", "cache", *options, "--remove")
    assert line == f"1 replies removed, 4 remain in {filled}"
    with ReplyCache(filled) as cache:
        assert "".join(key for key in "12345" if cache.get(key)) == "2345"


@pytest.mark.parametrize(
    ("options", "message"), [([], "no criterion is given"), (["--outcome", "refusd"], "did you mean 'refused'")]
)
def test_contradictory_selections_are_refused(filled: Path, options: list[str], message: str) -> None:
    done = run_command("data", "cache", *options, "--remove")
    assert message in done.err


def test_embeddings_are_counted_by_encoder_and_pruned(file: Path) -> None:
    embeddings = file.with_name("embeddings.sqlite")
    with EmbeddingCache(embeddings, 10**6) as cache:
        cache.put([(b"1", bytes(3000)), (b"2", bytes(1000))], "minilm, layer 6")
        cache.put([(b"3", bytes(500))], "own, last layer")
    assert printed("data", "cache")[1:] == [
        f"{embeddings}: embeddings of 3 texts, 0.0 of at most 8,000 MB",
        "minilm, layer 6: 2 texts, 0.0 MB",
        "own, last layer: 1 texts, 0.0 MB",
    ]
    prune = ["data", "cache", "--embeddings", "--remove"]
    assert printed(*prune, "--older-than", "1") == [f"embeddings of 0 texts removed, 3 remain in {embeddings}"]
    dry = printed("data", "cache", "--embeddings", "--model", "minilm")
    assert dry == [f"embeddings of 2 texts would be removed, 1 remain in {embeddings}"]
    assert printed(*prune, "--model", "minilm") == [f"embeddings of 2 texts removed, 1 remain in {embeddings}"]
    assert printed(*prune) == [f"embeddings of 1 texts removed, 0 remain in {embeddings}"]
    done = run_command(*prune, "--outcome", "refused")
    same_message(done.err)


@pytest.mark.parametrize("bound", ["many", "-1", "inf", "nan"])
def test_an_invalid_bound_is_refused(file: Path, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_EMBEDDINGS_GB", bound)
    done = run_command("data", "cache")
    same_message(done.err)
