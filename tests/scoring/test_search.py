"""Searching while an evaluation runs: what is found, what it is called, and reasons where nothing can be searched."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, Doc, benchmark_folder, build_doc, open_benchmark
from ragtasks.clients import no_secrets
from ragtasks.config import config_from_options
from ragtasks.errors import CacheError, ConfigurationError, JudgeError
from ragtasks.records import Setting
from ragtasks.scoring import LiveRetrieval, take_failures
from ragtasks.scoring._retrieval import CorpusSearch
from retrieval_cache import RunStore
from tests.clients._server import chat_server, refusal
from tests.judges._demo import QUICK
from tests.retrieval_cache.rerankers.test_listwise import by_overlap


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


@pytest.fixture
def search(sample: Benchmark, tmp_path: Path) -> CorpusSearch:
    return CorpusSearch(sample, "bm25", tmp_path, no_secrets)


def test_each_text_finds_passages_of_its_corpus_as_deep_as_stored_runs(search: CorpusSearch) -> None:
    found = search("govt", ["permit cost", "zzz"])
    assert found.reason == ""
    assert found.rankings is not None
    assert set(found.rankings) == {"permit cost", "zzz"}
    assert len(found.rankings["permit cost"]) > 5
    scores = [item.score for item in found.rankings["permit cost"]]
    assert scores == sorted(scores, reverse=True)
    assert found.rankings["zzz"] == ()
    assert search("govt", ["permit cost"]).rankings == {"permit cost": found.rankings["permit cost"]}


def test_a_corpus_is_indexed_once(search: CorpusSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    import retrieval_cache.stage

    opened: list[str] = []
    made = retrieval_cache.stage.domain_retriever

    def counted(benchmark: Benchmark, domain: str, *more: Any) -> Any:
        opened.append(domain)
        return made(benchmark, domain, *more)

    monkeypatch.setattr("retrieval_cache.domain_retriever", counted)
    search.prepare(["govt", "clapnq", "govt"])
    search.prepare(["govt"])
    search("clapnq", ["x"])
    assert opened == ["govt", "clapnq"]


def test_it_says_which_retriever_searched(search: CorpusSearch) -> None:
    described = search.describe()
    assert described["line"] == "bm25"
    assert {"line", "unsearched"} < set(described), "parameters of the retriever"
    assert described["unsearched"] == {}
    assert "statistics" not in described


def test_a_corpus_that_cannot_be_searched_has_a_reason_and_costs_no_other_one(
    search: CorpusSearch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import retrieval_cache.stage

    made, tried = retrieval_cache.stage.domain_retriever, []

    def breaks(benchmark: Benchmark, domain: str, *more: Any) -> Any:
        tried.append(domain)
        if domain == "govt":
            raise CacheError("the disk is full")
        return made(benchmark, domain, *more)

    monkeypatch.setattr("retrieval_cache.domain_retriever", breaks)
    search.prepare(["govt", "clapnq"])
    found = search("govt", ["permit"])
    assert (found.rankings, found.reason) == (None, "corpus of govt: the disk is full")
    assert search("clapnq", ["permit"]).rankings is not None
    assert search.describe()["unsearched"] == {"govt": "corpus of govt: the disk is full"}
    assert tried == ["govt", "clapnq"], "it is tried once"
    warnings = [item.message for item in caplog.records if item.levelname == "WARNING"]
    assert warnings == ["rewrites in govt will not be searched: their scores will be unscored. the disk is full"]
    assert take_failures() == []


def test_a_retriever_that_cannot_search_for_new_queries_is_refused_before(
    search: CorpusSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> Any:
        raise ConfigurationError("not for new queries")

    monkeypatch.setattr("retrieval_cache.domain_retriever", refuses)
    with pytest.raises(ConfigurationError, match="not for new queries"):
        search.prepare(["govt"])
    found = search("govt", ["permit"])
    assert (found.rankings, found.reason) == (None, "search of govt failed: not for new queries")
    assert take_failures() == ["search of govt failed: not for new queries"]


@pytest.mark.parametrize("library", ["tantivy", "pytrec_eval"])
def test_without_a_library_nothing_is_searched_and_the_reason_says_what_to_install(
    sample: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, library: str
) -> None:
    there = builtins.__import__

    def without(name: str, *more: Any, **options: Any) -> Any:
        if name.partition(".")[0] == library:
            raise ImportError(f"No module named '{library}'", name=library)
        return there(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(__import__("sys").modules, library, raising=False)
    search = CorpusSearch(sample, "bm25", tmp_path, no_secrets)
    assert "pip install 'ragtasks[retrieval]'" in search.missing
    warnings = [item.message for item in caplog.records if item.levelname == "WARNING"]
    assert warnings == [f"rewrites will not be searched: their retrieval scores will be unscored. {search.missing}"]
    description = search.describe()
    assert (description["line"], description["unsearched"]) == ("bm25", {"all": search.missing})
    found = search("govt", ["permit"])
    assert (found.rankings, found.reason) == (None, search.missing)


def test_a_reranker_has_its_key_keeps_its_replies_and_counts_them(sample: Benchmark, tmp_path: Path) -> None:
    with chat_server(by_overlap) as server:
        keys = {"OPENAI_API_KEY": "sk-4711", "OPENAI_BASE_URL": server.base_url}
        line = f"rerank(bm25,listwise:m,base_url={server.base_url})"
        first = CorpusSearch(sample, line, tmp_path, keys.get)
        found = first("govt", ["permit cost"])
        n_asked = len(server.asked)
        assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-4711"}
        again = CorpusSearch(sample, line, tmp_path, keys.get)
        assert again("govt", ["permit cost"]) == found
        assert len(server.asked) == n_asked, "replies are kept"
    assert set(first.describe()["statistics"]) == {"govt"}
    assert first.describe()["statistics"]["govt"]


def test_how_deep_a_retriever_goes_is_asked_before_a_model_runs(
    search: CorpusSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths: list[tuple[object, int]] = []
    shallow = SimpleNamespace(search=lambda queries, depth, *_: depths.append((queries, depth)))
    monkeypatch.setattr("retrieval_cache.domain_retriever", lambda *_: shallow)
    search.prepare(["govt"])
    assert depths == [({}, 100)]


@pytest.mark.parametrize("line", ["bm52", "bm25:k1=2"])
def test_an_unknown_retriever_is_refused(sample: Benchmark, tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError, match="retriever"):
        CorpusSearch(sample, line, tmp_path, no_secrets)


def test_a_search_that_fails_after_the_answers_leaves_a_reason(sample: Benchmark, tmp_path: Path) -> None:
    search = CorpusSearch(sample, "bm25", tmp_path, no_secrets)
    search.prepare(("clapnq", "fiqa", "govt", "cloud"))
    shutil.rmtree(tmp_path)
    assert search("govt", []).rankings == {}
    found = CorpusSearch(sample, "bm25", Path("/dev/null/store"), no_secrets)("govt", ["permit"])
    assert found.rankings is None
    assert found.reason.startswith("corpus of govt: ")


def test_replies_that_cannot_be_kept_are_said_before_a_model_runs(sample: Benchmark, tmp_path: Path) -> None:
    RunStore(tmp_path).replies.write_text("no database", encoding="utf-8")
    with pytest.raises(CacheError, match="reply cache"):
        CorpusSearch(sample, "rerank(bm25,listwise:openai/m)", tmp_path, no_secrets)


def test_a_reranker_that_does_not_go_deep_enough_is_refused_before_a_model_runs(
    sample: Benchmark, tmp_path: Path
) -> None:
    search = CorpusSearch(sample, "rerank(bm25,listwise:openai/m,depth=20)", tmp_path, no_secrets)
    with pytest.raises(ConfigurationError, match="set depth to at least 100"):
        search.prepare(["govt"])


# Questions of live conversations.


def question(sample: Benchmark, domain: str, turn: int) -> Doc:
    task = next(task for task in sample.tasks if (task.domain, task.turn) == (domain, turn))
    return build_doc(sample, task, Setting.FULL_RAG, "live", ())


def test_live_questions_of_two_domains_are_searched_in_their_corpora(
    sample: Benchmark, search: CorpusSearch, tmp_path: Path
) -> None:
    live = LiveRetrieval(sample, config_from_options({"retriever": "bm25"}), tmp_path, no_secrets)
    domains = ("govt", "cloud")
    for domain, doc in zip(domains, live.with_passages([question(sample, name, 1) for name in domains]), strict=True):
        rankings = search(domain, [doc["query"]]).rankings
        assert rankings is not None
        expected = [item.passage_id for item in rankings[doc["query"]]]
        shown = [row["passage_id"] for row in doc["passages"]]
        assert shown
        assert shown == expected[: len(shown)]


def test_a_live_question_that_the_rewriter_did_not_answer_is_an_error_and_no_last_turn(
    sample: Benchmark, tmp_path: Path
) -> None:
    with chat_server(lambda *_: refusal(400)) as server:
        rewriter = {"model": "m", "base_url": server.base_url, **QUICK}
        config = config_from_options({"retriever": "bm25", "queries": "llm_rewrite", "rewriter": rewriter})
        live = LiveRetrieval(sample, config, tmp_path, no_secrets)
        with pytest.raises(JudgeError, match="1 of 1 questions got no reply from the rewriter"):
            live.with_passages([question(sample, "govt", 2)])
