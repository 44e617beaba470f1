"""What is typed or handed over in a wrong way ends in one clear error: what, where, expected, found, next step."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.clients import ReplyCache
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import Problems, Ranked, json_lines, parse_json, read_qrels, read_run
from ragtasks.harness.run import run_harness
from ragtasks.harness.tasks import task_folder
from ragtasks.metrics.semantic import EmbeddingCache
from ragtasks.prompts import load_template
from ragtasks.records import Passage
from ragtasks.results import read_answers
from retrieval_cache.retrievers.protocol import searched
from tests._commands import run_command

RUN = b"q1 Q0 p1 1 2.0 t\nq1 Q0 p2 2 1.0 t\n"


@pytest.mark.parametrize("arguments", [[], ["--data", "sample"], ["--judge", "openai/x", "--encoder", "none"], ["-v"]])
def test_run_without_a_model_says_in_one_screen_what_to_type(arguments: list[str]) -> None:
    done = run_command("run", *arguments)
    lines = done.err.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    assert any(line.startswith("  ragtasks run --model ragtasks-extractive --tasks ") for line in lines)


@pytest.mark.slow
def test_the_line_that_a_newcomer_is_told_to_type_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as caught:
        run_harness([])
    (line,) = re.findall(r"ragtasks run (--model.*--output results)", str(caught.value))
    monkeypatch.chdir(tmp_path)
    done = run_command("run", *line.split())
    assert done.status == 0
    assert list((tmp_path / "results").rglob("results_*.json"))


@pytest.mark.parametrize("option", ["--metadata", "--judge", "--model_args"])
def test_deep_nesting_in_an_option_is_one_error(option: str) -> None:
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    done = run_command("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", option, deep)
    assert done.status in {1, 2}
    assert re.search(r"is not JSON: maximum recursion depth|usage|nested", done.err)


class Theirs:
    """A retriever of another package."""

    name = "theirs"

    def __init__(self, found: Any) -> None:
        self._found = found

    def describe(self) -> Mapping[str, Any]:
        return {}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Any = None) -> None:
        pass

    def search(self, queries: Mapping[str, str], k: int, progress: Any = None) -> Any:
        return self._found


def test_plain_pairs_count_as_a_ranking() -> None:
    found = searched(Theirs({"q": [("a", 2), ["b", 1.0], Ranked("c", 0.5)], "other": []}), {"q": "text"}, 3)
    assert found == {"q": (Ranked("a", 2.0), Ranked("b", 1.0), Ranked("c", 0.5))}


@pytest.mark.parametrize(
    "found",
    [None, [], {}, {"q": None}, {"q": ["a"]}, {"q": [("a", "b")]}, {"q": [(1, 2.0)]}, {"q": [("a", float("nan"))]}],
)
def test_a_ranking_of_another_form_names_the_contract(found: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)retriever theirs.*pairs.*docs/extending\.md"):
        searched(Theirs(found), {"q": "text"}, 3)


def test_a_byte_order_mark_is_read_over_in_every_input(tmp_path: Path) -> None:
    def marked(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + content)
        return tmp_path / name

    (tmp_path / "plain").write_bytes(RUN)
    assert read_run(marked("a.trec", RUN)) == read_run(tmp_path / "plain")
    rows = b'{"task_id": "q1", "contexts": [{"document_id": "p1", "score": 1.0}]}\n'
    assert list(read_run(marked("a.jsonl", rows))) == ["q1"]
    assert [one.query_id for one in read_qrels(marked("qrels", b"q1 0 p1 1\n"))] == ["q1"]
    assert [one.query_id for one in read_qrels(marked("beir", b"query-id\tcorpus-id\tscore\nq1\tp1\t1\n"))] == ["q1"]
    assert [row for _, row in json_lines(Problems(marked("lines", b'{"a": 1}\n'), "x", "y"))] == [{"a": 1}]
    assert parse_json(codecs.BOM_UTF8 + b"[1]") == [1]
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()))
    row = json.dumps({"id": benchmark.tasks[0].task_id, "answer": "April."})
    assert list(read_answers(marked("answers.jsonl", row.encode()), benchmark)) == [benchmark.tasks[0].task_id]
    own = load_template(str(marked("mine.jinja", b"Be brief.")), "generation/system")
    assert own.render(passages=[]) == "Be brief."


def test_a_task_yaml_with_a_byte_order_mark_is_the_same_task(tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    shutil.copytree(task_folder() / "custom", plain)
    shutil.copytree(plain, marked)
    for path in marked.glob("*.yaml"):
        path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    data = str(benchmark_folder("custom", "sample", Path()))
    first, second = (
        TaskManager(include_path=str(folder), include_defaults=False, metadata={"data": data}).load(
            ["custom_reference"]
        )
        for folder in (plain, marked)
    )
    one, other = (loaded["tasks"]["custom_reference"] for loaded in (first, second))
    assert one.config.task == other.config.task == "custom_reference"
    assert one.config.generation_kwargs == other.config.generation_kwargs
    assert one.doc_to_text(next(iter(one.eval_docs))) == other.doc_to_text(next(iter(other.eval_docs)))


@pytest.mark.slow
@pytest.mark.parametrize("opened", [ReplyCache, lambda path: EmbeddingCache(path, 1).__enter__()])
def test_a_lock_that_cannot_be_had_is_reported_within_seconds(tmp_path: Path, opened: Any) -> None:
    """In another process, as the system's locks belong to processes."""
    import subprocess

    path = tmp_path / "cache.sqlite"
    code = (
        f"import sqlite3, sys; c = sqlite3.connect({str(path)!r}); c.execute('BEGIN EXCLUSIVE'); print(1, flush=True)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{code}; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    holder.stdout.readline()
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            opened(path)
        except CacheError as error:
            errors.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(45)
    try:
        assert not thread.is_alive()
        assert "database is locked" in str(errors[0])
        told = f"process {holder.pid} holds it" if sys.platform == "linux" else "another process holds it"
        assert told in str(errors[0])
    finally:
        holder.communicate()
    assert sqlite3.connect(path).execute("SELECT 1").fetchone() == (1,)
