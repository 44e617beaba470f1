"""Functions of the command line on the sample: a run, its use in the harness, its tables, and a rewriting model."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import CacheError, ConfigurationError, JudgeError
from ragtasks.tables import Format, render
from retrieval_cache.service import Rewriter, Workspace, evaluate_runs, retrieve
from tests._messages import raises


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")


class _Model(BaseHTTPRequestHandler):
    """Rewrites every question to the same words in the requested JSON, or fails if the server says so."""

    def do_POST(self) -> None:
        server: Any = self.server
        server.n_requests += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        if server.status != 200:
            self.send_error(server.status)
            return
        content = json.dumps({"class": "non-standalone", "reworded version": "ferry to the island"})
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Disable logging."""


@pytest.fixture
def model() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.n_requests, server.status = 0, 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_tables_of_two_runs_and_the_official_one(workspace: Workspace) -> None:
    names = [retrieve(workspace, "bm25", form, depth=20).folder.name for form in ("last_turn", "rewrite")]
    text = render([evaluate_runs(workspace, [*names, "official"])], Format.MARKDOWN)
    assert "sample" in text
    for name in (*names, "official"):
        assert f"| {name} " in text


def test_a_missing_published_ranking_is_an_error_with_a_next_step(workspace: Workspace) -> None:
    with raises(ConfigurationError):
        evaluate_runs(replace(workspace, benchmark="mtrag_un"), ["official"])


def test_invalid_arguments_are_refused_before_files_are_read(workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="bm25"):
        retrieve(workspace, "bm52", "rewrite", depth=20)
    with pytest.raises(ConfigurationError, match="rewrite"):
        retrieve(workspace, "bm25", "rewrites", depth=20)
    with pytest.raises(ConfigurationError, match="--rewriter"):
        retrieve(workspace, "bm25", "llm_rewrite", depth=20)
    with raises(ConfigurationError):
        retrieve(workspace, "bm25", "last_turn", depth=20, rewriter=Rewriter("openai/m"))
    retrieve(workspace, "bm25", "last_turn", depth=20)
    with pytest.raises(ConfigurationError, match="run name 'my run'"):
        retrieve(workspace, "bm25", "last_turn", depth=20, name="my run")


def test_a_repeated_run_is_shown_once_and_a_run_of_other_data_is_refused(workspace: Workspace) -> None:
    run = retrieve(workspace, "bm25", "last_turn", depth=3, name="mine")
    text = render([evaluate_runs(workspace, ["mine", "mine"])], Format.MARKDOWN)
    assert text == render([evaluate_runs(workspace, ["mine"])], Format.MARKDOWN)
    assert "- mine ranks at most 3 passages per query, " in text
    with raises(CacheError):
        evaluate_runs(replace(workspace, benchmark="custom"), ["mine"])
    file = next(run.folder.glob("*.trec"))
    file.write_bytes(file.read_bytes().replace(b" 1 ", b" 2 ", 1))  # a rank, which no score depends on
    with raises(CacheError):
        evaluate_runs(workspace, ["mine"])


def test_files_of_equal_names_are_shown_by_their_paths(workspace: Workspace, tmp_path: Path) -> None:
    file = next(retrieve(workspace, "bm25", "last_turn", depth=3, name="mine").folder.glob("*.trec"))
    paths = [str(tmp_path / folder / "run.trec") for folder in "ab"]
    for path in map(Path, paths):
        path.parent.mkdir()
        path.write_bytes(file.read_bytes())
    tables = evaluate_runs(workspace, paths).tables
    assert [row[0] for row in tables[1].rows] == paths
    assert tables[-1].title == f"Against {paths[0]}, query by query"


def test_standalone_labels_are_the_same_for_every_run(workspace: Workspace) -> None:
    retrieve(workspace, "bm25", "last_turn", depth=20, name="mine")
    text = render([evaluate_runs(workspace, ["mine", "official"])], Format.MARKDOWN)
    assert re.findall(r"- (.+?): .*76 of 76 later turns", text) == ["every run"]


def test_the_rewriter_receives_one_request_for_each_later_turn(
    workspace: Workspace, model: Any, sample: Benchmark
) -> None:
    workspace = replace(workspace, secrets={"REWRITER_KEY": "secret-key"}.get)
    rewriter = Rewriter(f"m,api_key_env=REWRITER_KEY,base_url=http://127.0.0.1:{model.server_port}/v1")
    run = retrieve(workspace, "bm25", "llm_rewrite", depth=20, rewriter=rewriter)
    later = [task for task in sample.tasks if task.turn > 1]
    assert model.n_requests == len(later)
    rewriting = run.manifest.metadata["rewriting"]
    assert (rewriting["asked"], rewriting["fallbacks"]) == (len(later), {})
    assert [sums["n"] for sums in rewriting["spending"]["rewriter m"]] == [len(later)]  # no tokens were counted
    assert run.manifest.spec["queries"]["client"]["model"] == "m"
    again = retrieve(workspace, "bm25-standard", "llm_rewrite", depth=20, rewriter=rewriter)
    assert model.n_requests == len(later)
    assert again.manifest.spec["queries"] == run.manifest.spec["queries"]
    stored = b"".join(path.read_bytes() for path in workspace.store.rglob("*") if path.is_file())
    assert b"secret-key" not in stored


def test_a_models_rewrite_is_fused_with_other_forms(workspace: Workspace, model: Any) -> None:
    rewriter = Rewriter(f"m,base_url=http://127.0.0.1:{model.server_address[1]}/v1")
    made = retrieve(workspace, "bm25", "last_turn/llm_rewrite", depth=10, rewriter=rewriter)
    first, second = made.manifest.spec["queries"]["of"]
    assert (first, second["form"], second["client"]["model"]) == ({"form": "last_turn"}, "llm_rewrite", "m")
    assert made.manifest.metadata["rewriting"]["fallbacks"] == {}
    assert model.n_requests > 0
    for forms, hint in {"last_turn/rewrite": "is for the query form", "last_turn/rewrit": "rewrite"}.items():
        with pytest.raises(ConfigurationError, match=hint):
            retrieve(workspace, "bm25", forms, depth=10, rewriter=rewriter if hint != "rewrite" else None)


def test_a_failing_rewriter_is_one_clear_error(workspace: Workspace, model: Any) -> None:
    model.status = 401
    with pytest.raises(JudgeError, match="401"):
        retrieve(
            workspace,
            "bm25",
            "llm_rewrite",
            depth=20,
            rewriter=Rewriter(f"m,base_url=http://127.0.0.1:{model.server_port}/v1"),
        )
    assert not list((workspace.store).glob("runs/*"))
