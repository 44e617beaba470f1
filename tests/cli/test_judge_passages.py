"""`ragtasks judges passages`: a real server grades over HTTP, and `evaluate-run` uses the qrels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder
from ragtasks.files import read_qrels
from tests._commands import run_command
from tests.clients._server import ChatServer, completion
from tests.submissions.trec_rag._judge import overlap, parts_of

SAMPLE = benchmark_folder("trec_rag24", "sample", Path())
QUESTION = "when does the ferry run"
TEXTS = ["the ferry does run when it runs", "the ferry is red and old", "trams have bells", "no words in common here"]


def graded(prompt: str) -> str:
    """Grade by the share of the question's words in the passage."""
    code, parts = parts_of(prompt)
    return f"Verdict {code}: {round(3 * overlap(parts['question'], parts['passage found']))}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    with ChatServer(lambda prompt, _: completion(graded(prompt))).running() as running:
        yield running


def judge(server: ChatServer, model: str = "words") -> list[str]:
    return ["--judge", json.dumps({"model": model, "base_url": server.base_url})]


def results(path: Path) -> Path:
    docs = [{"segment": text, "title": "", "url": "", "headings": "", "start_char": 0, "end_char": 1} for text in TEXTS]
    candidates = [{"docid": f"p{n}", "score": 9.0 - n, "doc": doc} for n, doc in enumerate(docs)]
    path.write_text(json.dumps({"query": {"qid": "1", "text": QUESTION}, "candidates": candidates}) + "\n")
    return path


def test_grades_of_judges_are_qrels_that_score_runs(server: ChatServer, tmp_path: Path) -> None:
    file, qrels = results(tmp_path / "r.jsonl"), tmp_path / "qrels.txt"
    call = ["judges", "passages", str(file), *judge(server), "--output", str(qrels)]
    done = run_command(*call)
    assert done.status == 0
    assert "4 of 4 pairs are judged (0: 2, 1: 1, 2: 0, 3: 1)" in done.out
    assert [(one.query_id, one.passage_id, one.relevance) for one in read_qrels(qrels)] == [
        ("1", "p0", 3),
        ("1", "p1", 1),
        ("1", "p2", 0),
        ("1", "p3", 0),
    ]
    done = run_command("evaluate-run", str(file), "--qrels", str(qrels), "--measures", "nDCG@4")
    assert done.status == 0
    assert "1.000" in done.out
    n_asked = len(server.asked)
    assert run_command(*call).status == 0
    assert len(server.asked) == n_asked  # every reply was cached
    qrels.unlink()
    assert "2 of 2 pairs are judged" in run_command(*call, "--depth", "2").out


def test_a_split_panel_and_a_reply_without_a_grade_leave_a_pair_unjudged(server: ChatServer, tmp_path: Path) -> None:
    def script(prompt: str, _: int) -> str:
        return "Hard to say." if "trams" in prompt else graded(prompt)

    def lower(prompt: str, n: int) -> str:
        return script(prompt, n).replace(": 3", ": 2")

    file, qrels = results(tmp_path / "r.jsonl"), tmp_path / "qrels.txt"
    server.script = lambda prompt, n: completion(script(prompt, n))
    with ChatServer(lambda prompt, n: completion(lower(prompt, n))).running() as other:
        judges = [*judge(server), *judge(other, "lower")]
        done = run_command("judges", "passages", str(file), *judges, "--output", str(qrels))
        assert done.status == 0
    assert [one.passage_id for one in read_qrels(qrels)] == ["p1", "p3"]
    said = done.out
    assert "2 pairs have no grade and are not in the file, such as 1 p0: the judges are split" in said
    qrels.unlink()
    server.script = lambda *_: completion("Hard to say.")
    done = run_command("judges", "passages", str(file), *judge(server, "third"), "--output", str(qrels))
    assert done.status == 1
    assert ("nothing was written" in done.err, qrels.exists()) == (True, False)


def test_runs_of_a_benchmark_are_judged_with_the_texts_of_its_corpus(server: ChatServer, tmp_path: Path) -> None:
    qrels, place = tmp_path / "qrels.txt", ["--benchmark", "trec_rag24", "--data", "sample"]
    options = ["--output", str(qrels), "--depth", "3", *place]
    assert (
        run_command("judges", "passages", str(SAMPLE / "runs/run.rag24.test.txt"), *judge(server), *options).status == 0
    )
    found = read_qrels(qrels)
    assert len(found) == 6 * 3
    assert {one.relevance for one in found} <= {0, 1, 2, 3}


def test_a_conversation_is_shown_before_its_last_question(server: ChatServer, tmp_path: Path) -> None:
    options = ["--output", str(tmp_path / "qrels.txt"), "--depth", "1", "--benchmark", "mtrag", "--data", "sample"]
    assert run_command("judges", "passages", "official", *judge(server), *options).status == 0
    assert any("User]" in prompt and "a conversation, its last question" in prompt for prompt in server.asked)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task_id": "1", "contexts": []}, "expected query and candidates"),
        ({"query": {"qid": "1"}, "candidates": []}, "`query` with a `text`"),
        ({"query": {"qid": "1", "text": "q"}, "candidates": [{"docid": "a", "score": 1}]}, "a text of every candidate"),
    ],
)
def test_files_without_texts_are_refused_by_line(
    row: dict[str, object], said: str, server: ChatServer, tmp_path: Path
) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps(row) + "\n")
    done = run_command("judges", "passages", str(file), *judge(server), "--output", str(tmp_path / "q"))
    assert done.status == 1
    assert said in done.err
