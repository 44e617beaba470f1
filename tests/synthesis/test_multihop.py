from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.synthesis import MultihopSettings, Outcome, synthesize_multihop
from tests.clients._server import Action, chat_server, completion
from tests.synthesis._making import content, writer
from tests.synthesis._scripted import good_reply, script


def articles(path: Path, n: int = 3) -> Path:
    """Write a corpus of articles about two companies."""
    rows = [
        {
            "title": f"News {number}",
            "author": None,
            "source": f"Daily {number}",
            "published_at": f"2024-0{number + 1}-01T00:00:00+00:00",
            "category": "business",
            "url": f"http://news.example/{number}",
            "body": f"The Arden Company opened in {1900 + number} a mill. The Belmor Company sold in {number} a ship.",
        }
        for number in range(n)
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return path


def make(base_url: str, folder: Path, location: Path, out: str = "out") -> Outcome:
    client = writer(base_url, folder / "replies.sqlite")
    return synthesize_multihop(location, folder / out, client, MultihopSettings())


def test_articles_become_the_official_files(tmp_path: Path) -> None:
    with chat_server(script) as server:
        outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
        n_asked = len(server.asked)
        make(server.base_url, tmp_path, tmp_path / "corpus.json", "again")
        assert len(server.asked) == n_asked
    assert content(tmp_path / "out") == content(tmp_path / "again")
    benchmark = open_benchmark("multihop_rag", tmp_path / "out")
    kinds = Counter(kind for task in benchmark.tasks for kind in task.question_types)
    assert kinds == {"inference_query": 2, "comparison_query": 2, "temporal_query": 2, "null_query": 1}
    rows = json.loads((tmp_path / "out" / "dataset" / "MultiHopRAG.json").read_bytes())
    bodies = {
        row["url"]: row["body"] for row in json.loads((tmp_path / "out" / "dataset" / "corpus.json").read_bytes())
    }
    for row in rows:
        assert len(row["evidence_list"]) == (0 if row["question_type"] == "null_query" else 3)
        assert all(piece["fact"] in bodies[piece["url"]] for piece in row["evidence_list"])
        assert [piece["published_at"] for piece in row["evidence_list"]] == sorted(
            piece["published_at"] for piece in row["evidence_list"]
        )
    assert {row["answer"] for row in rows} == {"Arden Company", "Belmor Company", "Yes", "Insufficient information."}
    assert "3 facts that their article does not hold" in outcome.lines[0]


def test_documents_of_a_folder_are_articles_too(tmp_path: Path) -> None:
    for place in ("north", "south"):
        (tmp_path / "docs" / place).mkdir(parents=True)
        (tmp_path / "docs" / place / "a.txt").write_text(f"The Arden Company built in {place} a mill.", "utf-8")
    with chat_server(script) as server:
        make(server.base_url, tmp_path, tmp_path / "docs")
    benchmark = open_benchmark("multihop_rag", tmp_path / "out")
    assert len(benchmark.tasks) >= 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"all_used": False, "short": False}, "fail the check: all_used, short"),
        ({"all_used": "yes"}, "neither true nor false"),
        ({"answer": "perhaps"}, "none of yes, no|not the entity"),
        ({"query": "Is it the Arden Company or the Belmor Company?"}, "names its answer"),
    ],
)
def test_questions_that_do_not_hold_are_dropped(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    def spoils(prompt: str, n_before: int) -> Action:
        reply = json.loads(good_reply(prompt))
        return completion(json.dumps({**reply, **{key: change[key] for key in change.keys() & reply.keys()}}))

    with chat_server(spoils) as server:
        if "query" in change:
            outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
            assert "a question that names its answer" in outcome.lines[0]
            return
        with pytest.raises(ConfigurationError, match=reason):
            make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
    assert not (tmp_path / "out").exists()


def test_articles_without_anything_in_common_are_one_clear_error(tmp_path: Path) -> None:
    with chat_server(script) as server, pytest.raises(ConfigurationError, match="0 bridges"):
        make(server.base_url, tmp_path, articles(tmp_path / "corpus.json", 1))


def test_every_error_of_a_corpus_is_named(tmp_path: Path) -> None:
    rows = json.loads(articles(tmp_path / "corpus.json").read_bytes())
    broken = [rows[0], {**rows[1], "body": ""}, {**rows[2], "published_at": "yesterday"}, rows[0], "text"]
    (tmp_path / "corpus.json").write_text(json.dumps(broken), "utf-8")
    with chat_server(script) as server, pytest.raises(BenchmarkFileError) as raised:
        make(server.base_url, tmp_path, tmp_path / "corpus.json")
    assert [f"item {number}" in str(raised.value) for number in (1, 2, 3, 4, 5)] == [False, True, True, True, True]


def types_made(folder: Path) -> Counter[str]:
    return Counter(kind for task in open_benchmark("multihop_rag", folder).tasks for kind in task.question_types)


def test_a_temporal_question_rests_on_more_than_one_date(tmp_path: Path) -> None:
    rows = json.loads(articles(tmp_path / "corpus.json").read_bytes())
    for hour, row in enumerate(rows):
        row["published_at"] = f"2024-01-01T0{hour}:00:00+00:00"
    (tmp_path / "corpus.json").write_text(json.dumps(rows), "utf-8")
    with chat_server(script) as server:
        make(server.base_url, tmp_path, tmp_path / "corpus.json")
        assert types_made(tmp_path / "out")["temporal_query"] == 0
        rows[2]["published_at"] = "2024-01-02T00:00:00+00:00"
        (tmp_path / "corpus.json").write_text(json.dumps(rows), "utf-8")
        make(server.base_url, tmp_path, tmp_path / "corpus.json", "later")
    assert types_made(tmp_path / "later")["temporal_query"] == 2


@pytest.mark.parametrize("part", ["entity", "sources"])
@pytest.mark.parametrize("name", ["Belmor Company", "daily 1", "News 2"])
def test_a_null_query_with_a_known_name_is_dropped(tmp_path: Path, part: str, name: str) -> None:
    def names_what_is_known(prompt: str, n_before: int) -> Action:
        reply = json.loads(good_reply(prompt))
        if "sources" in reply:
            reply[part] = [name] if part == "sources" else name
            reply["query"] += f" {name}"
        return completion(json.dumps(reply))

    with chat_server(names_what_is_known) as server:
        outcome = make(server.base_url, tmp_path, articles(tmp_path / "corpus.json"))
    assert types_made(tmp_path / "out")["null_query"] == 0
    assert "a made-up name that an article holds" in " ".join(outcome.lines)
