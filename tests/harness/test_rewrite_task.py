"""Rewriting as a harness task: one command gives the scores of the precompute stage on the sample."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.config.environment import reply_cache_file
from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.harness.rewrite_task import RewriteTask
from ragtasks.metrics import RETRIEVAL_METRICS
from ragtasks.scoring import shared_scorer
from retrieval_cache.service import Workspace, judge_runs, retrieve
from tests.clients._server import chat_server
from tests.retrieval_cache.rerankers.test_listwise import by_overlap

GROUP, CONDITIONAL = "mtrag_rewrite", "mtrag_rewrite_conditional"
DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
QUERY_METRICS = {"ndcg_5": "nDCG@5", "recall_5": "R@5"}


def scores_of(benchmark: Benchmark, form: str, store: Path) -> dict[str, float]:
    """Return the scores of a query form by `ragtasks retrieve` and `ragtasks evaluate-run`."""
    stored = retrieve(Workspace("mtrag", "sample", Path(), store), "bm25", form, depth=100)
    (judged,) = judge_runs(benchmark, store, [stored.manifest.name], RETRIEVAL_METRICS)
    return {
        score: fmean(result.values[measure] for result in judged.results) for score, measure in QUERY_METRICS.items()
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.mark.slow
@pytest.mark.parametrize(("model", "form"), [("ragtasks-oracle", "rewrite"), ("ragtasks-refuse", "last_turn")])
def test_the_scores_are_those_of_the_precompute_stage(
    model: str, form: str, store: Path, evaluate: Callable[..., dict[str, Any]], benchmark_sample: Benchmark
) -> None:
    expected = scores_of(benchmark_sample, form, store)
    official = scores_of(benchmark_sample, "rewrite", store)
    assert len(expected) == len(QUERY_METRICS)
    results = evaluate(model, GROUP, CONDITIONAL, limit=None)["results"]
    for name in (GROUP, CONDITIONAL):
        own = results[name]
        for score in QUERY_METRICS:
            assert own[f"{score},sample"] == pytest.approx(expected[score], abs=1e-12)
            assert own[f"{score}_official,sample"] == pytest.approx(official[score], abs=1e-12)
        assert own["invalid_reply,sample"] == float(form == "last_turn")
        assert own["coverage,sample"] == 1


def test_a_prompt_is_one_message_with_the_conversation(load_task: Callable[..., Any]) -> None:
    for name, word in ((f"{GROUP}_govt", '"reworded version"'), (CONDITIONAL, "no_rewrite")):
        task = load_task(name)
        assert isinstance(task, RewriteTask)
        doc = max(task.dataset["test"], key=lambda doc: len(doc["history"]))
        (message,) = task.fewshot_context(doc, apply_chat_template=True, chat_template=lambda chat: chat)
        assert message == {"role": "user", "content": task.fewshot_context(doc)}
        positions = [
            message["content"].index(text) for text in (*(m["content"] for m in doc["history"]), doc["question"])
        ]
        assert positions == sorted(positions)
        assert word in message["content"]
        assert task.fewshot_context(doc, system_instruction="Be brief.").startswith("Be brief.\n\nBelow is")


def test_no_rewrite_ends_generation_and_json_may_span_lines(load_task: Callable[..., Any]) -> None:
    assert "\n" in load_task(CONDITIONAL).config.generation_kwargs["until"]
    assert "\n" not in load_task(f"{GROUP}_govt").config.generation_kwargs["until"]


def test_results_contain_the_inputs_of_the_scores(evaluate: Callable[..., dict[str, Any]]) -> None:
    name = f"{GROUP}_govt"
    results = evaluate("ragtasks-oracle", name, metadata={"retriever": "bm25-standard"})
    ours = results["configs"][name]["metadata"]["ragtasks"]
    assert ours["suite"] == "rewriting"
    assert ours["scoring"]["retriever"]["line"] == "bm25-standard"
    assert ours["scoring"]["retriever"]["unsearched"] == {}
    assert ours["prompts"]["plain"] == ours["prompts"]["system"]
    sample = results["samples"][name][0]
    extra = json.loads(sample["doc"]["extra"])
    assert set(extra) == {"rewrite", "standalone"}
    assert sample["doc"]["passages"] == []


def test_a_missing_corpus_is_reported_before_the_model_runs_and_unscored(
    tmp_path: Path,
    evaluate: Callable[..., dict[str, Any]],
    benchmark_sample: Benchmark,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shutil.copytree(benchmark_sample.root, tmp_path / "mtrag")
    (tmp_path / "mtrag/corpora/passage_level/govt.jsonl.zip").unlink()
    names = (f"{GROUP}_govt", f"{GROUP}_fiqa")
    with caplog.at_level(logging.INFO):
        results = evaluate("ragtasks-oracle", *names, metadata={"data": str(tmp_path / "mtrag")})
    govt, fiqa = (results["results"][name] for name in names)
    assert (govt["coverage,sample"], fiqa["coverage,sample"]) == (0, 1)
    assert govt["ndcg_5,sample"] != govt["ndcg_5,sample"]  # NaN
    assert govt["invalid_reply,sample"] == 0
    texts = [record.getMessage() for record in caplog.records]
    warned = next(index for index, text in enumerate(texts) if "rewrites in govt will not be searched" in text)
    assert warned < next(index for index, text in enumerate(texts) if "Running generate_until" in text)
    assert "ragtasks data fetch mtrag" in texts[warned]
    reasons = results["samples"][names[0]][0]["doc"]["scoring"]["unscored"]
    assert reasons["ndcg_5"].startswith("corpus of govt: ")


def test_a_missing_library_is_reported_first_and_replies_are_still_read(
    monkeypatch: pytest.MonkeyPatch,
    evaluate: Callable[..., dict[str, Any]],
    tmp_path: Path,
    benchmark_sample: Benchmark,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: Any) -> None:
        raise MissingExtraError("tantivy", "retrieval", "BM25")

    monkeypatch.setattr("retrieval_cache.parse", refuse)
    shutil.copytree(benchmark_sample.root, tmp_path / "mtrag")  # a separate scorer
    name = f"{GROUP}_govt"
    results = evaluate("ragtasks-oracle", name, metadata={"data": str(tmp_path / "mtrag")})
    own = results["results"][name]
    assert (own["coverage,sample"], own["invalid_reply,sample"]) == (0, 0)
    assert "pip install 'ragtasks[retrieval]'" in caplog.text
    unsearched = results["configs"][name]["metadata"]["ragtasks"]["scoring"]["retriever"]["unsearched"]
    assert "tantivy" in unsearched["all"]


@pytest.mark.parametrize("line", ["bm52", "bm25:k1=2"])
def test_an_unknown_retriever_is_rejected_when_the_task_is_loaded(line: str, load_task: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="retriever"):
        load_task(f"{GROUP}_govt", retriever=line)


def test_reranker_replies_are_cached_for_the_next_evaluation(
    evaluate: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    name = f"{GROUP}_govt"
    with chat_server(by_overlap) as server:
        metadata = {"retriever": f"rerank(bm25,listwise:m,base_url={server.base_url})"}
        first = evaluate("ragtasks-oracle", name, metadata=metadata)
        n_asked = len(server.asked)
        assert n_asked > 0
        shared_scorer.cache_clear()  # initial state of another process
        second = evaluate("ragtasks-oracle", name, metadata=metadata)
        assert len(server.asked) == n_asked
    assert str(second["results"][name]) == str(first["results"][name])  # NaN equals nothing
    for results in (first, second):
        retriever = results["configs"][name]["metadata"]["ragtasks"]["scoring"]["retriever"]
        assert retriever["statistics"] == {"govt": {"windows": n_asked, "ok": n_asked, "reasons": {}}}
    assert b"sk-secret" not in reply_cache_file().read_bytes()


def test_one_command_runs_it(command: Callable[..., Any]) -> None:
    done = command("--model", "ragtasks-oracle", "--tasks", GROUP, "--limit", "3")
    assert done.status == 0, done.err
    assert "ndcg_5_official" in done.out
