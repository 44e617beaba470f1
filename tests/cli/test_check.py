"""`ragtasks check` detects a file from its content, and checks it accordingly."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests._commands import run_command

SENTENCE = {"text": "Rain fell.", "citations": [0]}
SEGMENT = "msmarco_v2.1_doc_00_0#0_0"
TREC_2024 = {
    "run_id": "r",
    "topic_id": "2024-1",
    "topic": "what is rain",
    "references": [SEGMENT],
    "response_length": 2,
    "answer": [SENTENCE],
}
METADATA = {"team_id": "t", "run_id": "r", "narrative_id": "1", "narrative": "rain", "type": "automatic", "prompt": "p"}
TREC_2025 = {"metadata": METADATA, "references": [SEGMENT], "answer": [SENTENCE]}
CANDIDATES = {
    "query": {"qid": "q", "text": "Why?"},
    "candidates": [{"docid": "a", "score": 1.0, "doc": {"text": "So."}}],
}
RETRIEVED = {"task_id": "c<::>1", "Collection": "mt-rag-govt", "contexts": [{"document_id": "d", "score": 1.0}]}
ANSWERED = {**RETRIEVED, "input": [{"speaker": "user", "text": "Why?"}], "predictions": [{"text": "So."}]}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check a file with a row, without fetched data; return status and output."""
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def check(row: Any, *options: str) -> tuple[int, str]:
        Path("file.jsonl").write_text(row if isinstance(row, str) else json.dumps(row) + "\n", encoding="utf-8")
        done = run_command("check", "file.jsonl", *options)
        return done.status, done.out + done.err

    return check


@pytest.mark.parametrize(
    ("row", "form"),
    [
        (RETRIEVED, "task A, 1 lines"),
        (ANSWERED, "task C, 1 lines"),
        ({key: value for key, value in ANSWERED.items() if key != "Collection"}, "task B, 1 lines"),
        (TREC_2024, "TREC RAG 2024, 1 lines"),
        ("{broken\n" + json.dumps(TREC_2024), "TREC RAG 2024, 2 lines"),
        (TREC_2025, "TREC RAG 2025, 1 lines"),
        ({"_id": "p1", "title": "Rain", "text": "Rain fell."}, "1 passages"),
    ],
)
def test_the_file_type_is_detected_from_the_first_object(row: Any, form: str, checked: Any) -> None:
    assert form in checked(row)[1]


def test_the_file_type_does_not_depend_on_the_name(tmp_path: Path) -> None:
    named = {
        "results_ag_2025.json": (json.dumps(RETRIEVED), "task A, 1 lines"),
        "results.yaml.txt": ("model: ragtasks-oracle\nbenchmark: mtrag\n", "evaluates ragtasks-oracle on mtrag"),
        "a.yaml": ("# written in 2025\nmodel: ragtasks-oracle\nbenchmark: mtrag\n", "evaluates ragtasks-oracle on"),
        "corpus.jsonl": ("q Q0 a 1 2.0 t\n", "a run: 1 passages for 1 queries"),
        "results_run.json": ("q 0 a 1\nq 0 b 0\n", "2 judgements of 1 queries, 1 relevant"),
        "passages.tsv": ("query-id\tcorpus-id\tscore\nq\tNew York\t1\n", "1 judgements of 1 queries, 1 relevant"),
        "rows.jsonl": (json.dumps(CANDIDATES), "a run: 1 passages for 1 queries"),
        "a.csv": ('{"q": {"a": 1.0, "b": 0.5}}', "a run: 2 passages for 1 queries"),
        "b.gz": ('{"q": {"a": 1, "b": 0}}', "2 judgements of 1 queries, 1 relevant"),
    }
    for name, (text, expected) in named.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        done = run_command("check", tmp_path / name)
        assert done.err == "", name
        assert expected in done.out, name


def test_a_run_is_checked_as_it_is_evaluated(tmp_path: Path) -> None:
    run, qrels = tmp_path / "mine.run", tmp_path / "mine.qrels"
    qrels.write_text("q 0 a 1\n", encoding="utf-8")

    def both(text: str) -> tuple[str, str]:
        run.write_text(text, encoding="utf-8")
        checks = run_command("check", run), run_command("evaluate-run", str(run), "--qrels", str(qrels))
        assert checks[0].status == checks[1].status
        return checks[0].out + checks[0].err, checks[1].out + checks[1].err

    first, second = both("q Q0 a 1 2.0 t\nq Q0 a 2 1.0 t\nr Q0 a 1 nan t\n")
    assert first == second
    assert "line 2 (q): expected each passage of a query once, found 'a'" in first
    assert "line 3: expected a finite score" in first
    note = "in 1 of 1 queries the order of the file contradicts the scores"
    assert all(note in text for text in both("q Q0 a 1 1.0 t\nq Q0 b 2 2.0 t\n"))
    assert f"next: ragtasks evaluate-run {run} --qrels QRELS" in both("q Q0 a 1 1.0 t\n")[0]


@pytest.mark.parametrize(("row", "what"), [(TREC_2024, "topic"), (TREC_2025, "narrative")])
def test_without_topics_a_trec_file_is_checked_partially(row: dict[str, Any], what: str, checked: Any) -> None:
    status, said = checked(row)
    assert status == 0
    assert "0 problems, 0 warnings" in said
    assert (
        f"not checked: whether each {what} belongs to the track and has the official text, and whether any is missing"
        in said
    )
    assert f"ragtasks data fetch trec_rag2{4 if what == 'topic' else 5}" in said
    status, said = checked({**row, "answer": [{**SENTENCE, "citations": [7]}]})
    assert (status, "problem citation" in said) == (1, True)
    status, said = checked(row, "--data", "sample")
    assert (status, f"problem unknown_{what}" in said) == (1, True)


def test_the_set_of_topics_is_that_of_the_file(checked: Any) -> None:
    row = {**TREC_2024, "topic_id": "900201", "topic": "another"}
    said = checked(row, "--data", "sample")[1]
    assert "unknown_topic" not in said
    assert "topic_text" in said
    assert "unknown_topic" in checked(row, "--data", "sample", "--set", "raggy")[1]


def test_answers_are_read_as_by_score(checked: Any) -> None:
    from ragtasks.benchmarks import benchmark_folder, open_benchmark

    (task, *_) = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path())).tasks
    status, said = checked({"id": task.task_id, "answer": "So."}, "--data", "sample")
    assert status == 0
    assert "answers to 1 of the 112 tasks of mtrag (sample), 0 with contexts" in said
    assert "next: ragtasks score file.jsonl --benchmark mtrag --data sample" in said
    status, said = checked({"id": "nobody", "answer": "So."}, "--data", "sample")
    assert (status, "nobody" in said) == (1, True)


@pytest.mark.parametrize(
    ("row", "options", "said"),
    [
        ({"a": 1, "b": 2}, (), "found: an object with `a`, `b`"),
        ("nothing", (), "found: none of these in the first lines"),
        ("", (), "found: an empty file"),
        (TREC_2024, ("--no-documents",), "--input, --no-documents: not used when file.jsonl is checked as TREC RAG"),
        (
            RETRIEVED,
            ("--set", "raggy"),
            "--set, --narratives, --fixed: not used when file.jsonl is checked as MTRAGEval",
        ),
        ({"_id": "p", "text": "x"}, ("--json",), "--json: not used when file.jsonl is checked as a corpus"),
    ],
)
def test_unused_options_are_refused(row: Any, options: tuple[str, ...], said: str, checked: Any) -> None:
    status, text = checked(row, *options)
    assert (status, said in text) == (1, True)


@pytest.mark.parametrize("name", ["nowhere/file.jsonl", "file.json", "./folder"])
def test_a_missing_path_is_reported(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command("check", name)
    assert done.status == 1
    assert "check the path" in done.err


def test_own_rows_are_read_as_by_score(checked: Any) -> None:
    row = {"question": "Why?", "answer": "So.", "contexts": ["x"], "metadata": {"a": 1}, "references": ["y"]}
    status, said = checked(row)
    assert status == 0
    assert "1 own rows, 1 with contexts\nnext: ragtasks score file.jsonl" in said
    assert "did you mean 'reference'?" in said
    status, said = checked({"question": "Why?"})
    assert (status, "line 1" in said) == (1, True)


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("model: ragtasks-oracle\nbenchmark: mtrag\n", 0, "evaluates ragtasks-oracle on mtrag"),
        ("model: ragtasks-oracle\nbenchmrk: mtrag\n", 1, "did you mean 'benchmark'"),
    ],
)
def test_an_evaluation_file_is_read(text: str, status: int, expected: str, tmp_path: Path) -> None:
    (tmp_path / "evaluation.yaml").write_text(text, encoding="utf-8")
    done = run_command("check", tmp_path / "evaluation.yaml")
    assert done.status == status
    assert expected in done.out + done.err


def test_results_are_read_to_their_last_sample(evaluations: Path) -> None:
    done = run_command("check", evaluations)
    assert done.status == 0
    assert "ragtasks-oracle on mtrag (sample): " in done.out


def test_a_folder_of_shards_is_a_corpus(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(json.dumps({"_id": name, "text": f"Text of {name}."}) + "\n")
    done = run_command("check", tmp_path)
    assert (done.status, done.out.startswith("2 passages of ")) == (0, True)


def test_an_array_instead_of_lines_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('[{"task_id": "a<::>1", "contexts": [], "predictions": []}]\n', encoding="utf-8")
    done = run_command("check", path, "--task", "B", "--data", "sample")
    assert done.status == 1
    assert "1 problems" in done.out or "1 problem" in done.out
    assert "one JSON array" in done.out
    assert f"jq -c '.[]' {path}" in done.out
