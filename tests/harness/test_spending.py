"""Usage of rewriters and rerankers, compared with the usage that their server reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.files import spending_of_run
from ragtasks.records import Passage
from ragtasks.results import Evaluation, read_evaluations
from retrieval_cache import Rewriter, Workspace, parse, retrieve, spending_of
from tests.clients._server import ChatServer, chat_server
from tests.harness.conftest import CommandResult
from tests.judges._demo import QUICK
from tests.retrieval_cache.rerankers.test_listwise import by_overlap
from tests.scoring.test_usage import CountingServer, all_calls, spending_table, summed

Command = Callable[..., CommandResult]
QUERY = json.dumps({"class": "non-standalone", "reworded version": "ferry to the island"})
FULL_RAG = "mtrag_full_rag_govt"


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def counted(text: str, _: int) -> str:
    """Return a rewrite, a ranking or an answer, depending on the prompt; some are invalid and requested again."""
    if "Passages:" in text or "[2] " in text:
        return json.loads(by_overlap(text, 0).body)["choices"][0]["message"]["content"]
    return "no JSON" if len(text) % 7 == 0 else QUERY


def listwise(server: ChatServer) -> str:
    return f'rerank(bm25,listwise:m,base_url="{server.base_url}",words=20)'


def evaluation_in(folder: Path) -> Evaluation:
    (evaluation,) = read_evaluations([folder])
    return evaluation


def extractive(command: Command, output: Path, task: str, *options: str, **metadata: Any) -> Evaluation:
    done = command(
        "--model", "ragtasks-extractive", "--tasks", task, "--log_samples", "--output_path", str(output), *options,
        metadata={"encoder": "none", **metadata},
    )  # fmt: skip
    assert done.status == 0, done.err
    return evaluation_in(output)


@pytest.mark.slow
def test_usage_of_a_stored_run_is_counted_and_reported_by_its_users(command: Command, tmp_path: Path) -> None:
    counting = CountingServer(counted)
    with chat_server(counting.script) as server:
        workspace = Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store")
        rewriter = Rewriter(f"m,base_url={server.base_url}", min_rewritten=0.5)
        run = retrieve(workspace, listwise(server), "llm_rewrite", name="ours", depth=20, rewriter=rewriter).folder.name
    spending = spending_of_run(tmp_path / "store", run)
    assert spending.keys() == {"rewriter m", "reranker m"}
    assert summed(call for calls in spending.values() for call in calls) == counting.sums
    evaluation = extractive(command, tmp_path / "out", FULL_RAG, run=run)
    assert evaluation.spending.keys() == {"run ours, rewriter m", "run ours, reranker m"}
    assert {call["spent"] for call in all_calls(evaluation)} == {"before"}
    assert summed(all_calls(evaluation)) == counting.sums
    n_input, n_output, _ = counting.sums
    assert f"total: spent before (cached) {n_input:,} + {n_output:,} tok" in spending_table([evaluation]).legend[-1]


def test_rewriter_and_reranker_usage_of_live_conversations_is_counted(command: Command, tmp_path: Path) -> None:
    counting = CountingServer(counted)
    with chat_server(counting.script) as server:
        rewriter = {"model": "m", "base_url": server.base_url, **QUICK, "price": [2.0, 8.0]}
        evaluation = extractive(
            command, tmp_path / "out", "mtrag_live_full_rag_govt", "--limit", "2",
            queries="llm_rewrite", rewriter=rewriter, retriever=listwise(server),
        )  # fmt: skip
    assert evaluation.spending.keys() == {"rewriter m", "reranker m"}
    assert summed(all_calls(evaluation)) == counting.sums
    assert all("dollars" in call for call in evaluation.spending["rewriter m"])


def test_usage_of_a_nested_reranker_is_counted(tmp_path: Path) -> None:
    counting = CountingServer(
        lambda text, _: str(json.loads(by_overlap(text, 0).body)["choices"][0]["message"]["content"])
    )
    with chat_server(counting.script) as server:
        retriever = parse(f"hybrid(bm25,{listwise(server)})")
        passages = [Passage(f"p{number}", f"words about ferry number {number}") for number in range(5)]
        retriever.index(passages, tmp_path)
        retriever.search({"q": "ferry number"}, 3)
    assert summed(spending_of(retriever)["reranker m"]) == counting.sums
    assert counting.sums[0] > 0
