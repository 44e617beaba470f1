"""Contents of a reply cache: columns for people, counts, and pruning."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import (
    CachedReply,
    Outcome,
    Reply,
    ReplyCache,
    describe_cache,
    prune,
)
from ragtasks.errors import ConfigurationError

DAY_SECONDS = 86_400
THERE = {"client": {"model": "far/m"}, "address": "https://h:443/v1"}
HERE = {"client": {"model": "near"}}
ANSWERED, REFUSED = Reply(Outcome.ANSWERED, "x" * 3000), Reply(Outcome.REFUSED)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Five replies with keys 1 to 5; the first was stored ten days ago."""
    with ReplyCache(tmp_path / "c") as cache:
        cache.put(
            [
                CachedReply("1", THERE, ANSWERED, "idk"),
                CachedReply("2", THERE, ANSWERED, "idk"),
                CachedReply("3", THERE, REFUSED, "idk"),
                CachedReply("4", THERE, Reply(Outcome.TRUNCATED), "rl_f", is_history=True),
                CachedReply("5", HERE, ANSWERED),
            ]
        )
        cache.execute("UPDATE replies SET stored = ? WHERE key = '1'", (time.time() - 10 * DAY_SECONDS,))
    return tmp_path / "c"


def keys(cache: ReplyCache) -> str:
    return "".join(key for key in "12345" if cache.get(key))


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"older_than_days": 9}, "2345"),
        ({"older_than_days": 11}, "12345"),
        ({"model": "far/m"}, "5"),
        ({"outcome": "refused"}, "1245"),
        ({"older_than_days": 9, "outcome": "refused"}, "12345"),
        ({"older_than_days": 0, "model": "far/m", "outcome": "answered"}, "345"),
    ],
)
def test_prune_deletes_replies_that_match_every_criterion(file: Path, choice: dict[str, Any], left: str) -> None:
    with ReplyCache(file) as cache:
        n_gone = 5 - len(left)
        assert prune(cache, **choice, dry_run=True)[0] == n_gone
        assert keys(cache) == "12345"
        assert prune(cache, **choice)[0] == n_gone
        assert keys(cache) == left
        assert prune(cache, **choice)[0] == 0


def test_pruning_shrinks_the_file(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "c") as cache:
        cache.put(CachedReply(str(number), HERE, ANSWERED) for number in range(300))
        prune(cache, model="other")
        before = (tmp_path / "c").stat().st_size + (tmp_path / "c-wal").stat().st_size
        prune(cache, model="near")
        assert (tmp_path / "c").stat().st_size + (tmp_path / "c-wal").stat().st_size < before / 5


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({}, "no criterion is given: add --older-than, --model or --outcome"),
        ({"outcome": "refusd"}, "unknown outcome 'refusd': did you mean 'refused'"),
    ],
)
def test_pruning_without_criteria_deletes_nothing(file: Path, choice: dict[str, Any], words: str) -> None:
    with ReplyCache(file) as cache:
        with pytest.raises(ConfigurationError, match=words):
            prune(cache, **choice)
        assert keys(cache) == "12345"


def test_a_file_is_described_with_its_size_and_a_table(file: Path) -> None:
    with ReplyCache(file) as cache:
        cache.put(CachedReply(f"more {number}", HERE, ANSWERED) for number in range(1200))
        n_bytes = file.stat().st_size + file.with_name("c-wal").stat().st_size
        described = describe_cache(file)
    assert described == [
        f"{file}: 1,205 replies, {n_bytes / 1e6:.1f} MB",
        "model  address           kind  outcome                      replies",
        "far/m  https://h:443/v1  idk   answered                     2",
        "far/m  https://h:443/v1  idk   refused                      1",
        "far/m  https://h:443/v1  rl_f  truncated (requested again)  1",
        "near   -                 -     answered                     1,201",
    ]
    assert n_bytes > 4e6, "with what is not yet in the file itself"


def test_an_empty_file_has_no_table_and_a_missing_file_is_not_created(tmp_path: Path) -> None:
    assert describe_cache(tmp_path / "c") == [f"{tmp_path / 'c'}: no cached replies yet"]
    assert not (tmp_path / "c").exists()
    with ReplyCache(tmp_path / "c"):
        pass
    (line,) = describe_cache(tmp_path / "c")
    assert line.startswith(f"{tmp_path / 'c'}: 0 replies, 0.")
