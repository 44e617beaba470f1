"""Search during an evaluation: results, provenance, and reasons for missing searches."""

from __future__ import annotations

import builtins
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragtasks.benchmarks import INJECTED_VERSION, Benchmark, Doc, build_doc
from ragtasks.clients import no_secrets
from ragtasks.config import config_from_options
from ragtasks.errors import CacheError, ConfigurationError, JudgeError
from ragtasks.records import Setting
from ragtasks.scoring import LiveRetrieval, take_failures
from ragtasks.scoring._corpus_search import CorpusSearch
from ragtasks.scoring._live_retrieval import check_retrieval
from retrieval_cache import RunStore
from tests._messages import raises
from tests.clients._server import Action, chat_server, completion, refusal
from tests.judges._demo import QUICK
from tests.retrieval_cache.rerankers.test_listwise import by_overlap


@pytest.fixture
def search(sample: Benchmark, tmp_path: Path) -> CorpusSearch:
    return CorpusSearch(sample, "bm25", tmp_path, no_secrets)


def test_each_text_finds_passages_of_its_corpus_as_deep_as_stored_runs(search: CorpusSearch) -> None:
    found = search("govt", ["permit cost", "zzz"])
    assert found.reason == ""
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


def test_the_description_names_the_retriever(search: CorpusSearch) -> None:
    described = search.describe()
    assert described["line"] == "bm25"
    assert {"line", "unsearched"} < set(described), "parameters of the retriever"
    assert described["unsearched"] == {}
    assert "statistics" not in described


def test_a_corpus_that_cannot_be_searched_has_a_reason_and_affects_no_other(
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


def test_a_retriever_for_stored_queries_only_is_refused_in_advance(
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
def test_a_missing_library_is_the_reason_with_its_install_command(
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


def test_a_reranker_has_its_key_stores_its_replies_and_counts_them(sample: Benchmark, tmp_path: Path) -> None:
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
    (calls,) = first.spending().values()
    assert len(calls) == n_asked


def test_the_depth_of_a_retriever_is_checked_before_a_model_runs(
    search: CorpusSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths: list[tuple[object, int]] = []
    shallow = SimpleNamespace(search=lambda queries, depth, *_: depths.append((queries, depth)))
    monkeypatch.setattr("retrieval_cache.domain_retriever", lambda *_: (shallow, None))
    search.prepare(["govt"])
    assert depths == [({}, 100)]


@pytest.mark.parametrize("line", ["bm52", "bm25:k1=2"])
def test_an_unknown_retriever_is_refused(sample: Benchmark, tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError, match="retriever"):
        CorpusSearch(sample, line, tmp_path, no_secrets)


def test_a_search_that_fails_after_the_answers_has_a_reason(sample: Benchmark, tmp_path: Path) -> None:
    search = CorpusSearch(sample, "bm25", tmp_path, no_secrets)
    search.prepare(("clapnq", "fiqa", "govt", "cloud"))
    shutil.rmtree(tmp_path)
    assert search("govt", []).rankings == {}
    found = CorpusSearch(sample, "bm25", Path("/dev/null/store"), no_secrets)("govt", ["permit"])
    assert found.rankings is None
    assert found.reason.startswith("corpus of govt: ")


def test_an_unwritable_reply_cache_is_reported_before_a_model_runs(sample: Benchmark, tmp_path: Path) -> None:
    RunStore(tmp_path).replies.write_text("no database", encoding="utf-8")
    with pytest.raises(CacheError, match="reply cache"):
        CorpusSearch(sample, "rerank(bm25,listwise:openai/m)", tmp_path, no_secrets)


def test_a_reranker_without_enough_depth_is_refused_before_a_model_runs(sample: Benchmark, tmp_path: Path) -> None:
    search = CorpusSearch(sample, "rerank(bm25,listwise:openai/m,depth=20)", tmp_path, no_secrets)
    with raises(ConfigurationError):
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
        expected = [item.passage_id for item in rankings[doc["query"]]]
        shown = [row["passage_id"] for row in doc["passages"]]
        assert shown
        assert shown == expected[: len(shown)]


def test_a_live_question_without_a_rewriter_reply_is_an_error_and_no_last_turn(
    sample: Benchmark, tmp_path: Path
) -> None:
    with chat_server(lambda *_: refusal(400)) as server:
        rewriter = {"model": "m", "base_url": server.base_url, **QUICK}
        config = config_from_options({"retriever": "bm25", "queries": "llm_rewrite", "rewriter": rewriter})
        live = LiveRetrieval(sample, config, tmp_path, no_secrets)
        with raises(JudgeError):
            live.with_passages([question(sample, "govt", 2)])


def live_of(sample: Benchmark, store: Path, **options: Any) -> LiveRetrieval:
    return LiveRetrieval(sample, config_from_options({"retriever": "bm25", **options}), store, no_secrets)


def rewriting(base_url: str, **more: Any) -> dict[str, Any]:
    """Return the options of a live retrieval whose questions a model rewrites."""
    return {"queries": "llm_rewrite", "rewriter": {"model": "m", "base_url": base_url, **QUICK, **more}}


def rewrite(text: str) -> Action:
    return completion(json.dumps({"class": "non-standalone", "reworded version": text}))


def test_a_live_question_is_searched_in_the_configured_form_and_shows_its_passages(
    sample: Benchmark, tmp_path: Path
) -> None:
    asked = question(sample, "govt", 2)
    live = live_of(sample, tmp_path, queries="all_questions")
    (doc,) = live.with_passages([asked])
    assert doc["query"] == "\n".join(
        item["content"] for item in [*asked["history"][::2], {"content": asked["question"]}]
    )
    assert (doc["run"], doc["task_id"], doc["question"]) == ("live", asked["task_id"], asked["question"])
    assert [set(row) for row in doc["passages"]] == [{"passage_id", "title", "text"}] * 5
    texts = {item.passage_id: item.text for task in sample.tasks for item in task.references}
    cached = [row for row in doc["passages"] if row["passage_id"] in texts]
    assert cached
    assert all(row["text"] == texts[row["passage_id"]] for row in cached)
    assert live.options() == {"retriever": "bm25", "queries": "all_questions"}
    assert (live.counts(), live.spending(), live.problem()) == ({}, {}, "")
    assert live.with_passages([]) == []


def test_live_questions_keep_their_order_and_their_own_passages(sample: Benchmark, tmp_path: Path) -> None:
    asked = [question(sample, domain, turn) for domain, turn in (("govt", 1), ("cloud", 1), ("govt", 2), ("cloud", 3))]
    live = live_of(sample, tmp_path)
    found = live.with_passages(asked)
    assert [doc["task_id"] for doc in found] == [doc["task_id"] for doc in asked]
    assert found == [live_of(sample, tmp_path).with_passages([doc])[0] for doc in asked]
    assert found[0]["passages"] != found[2]["passages"]


def test_a_rewriter_gets_later_turns_and_all_its_replies_are_counted(sample: Benchmark, tmp_path: Path) -> None:
    with chat_server(lambda text, _: completion("no") if "command line" in text else rewrite("permit cost")) as server:
        live = live_of(sample, tmp_path, **rewriting(server.base_url, price=[1.0, 2.0]))
        first, second = live.with_passages([question(sample, "govt", 1), question(sample, "govt", 2)])
        assert first["query"] == first["question"]
        assert second["query"] == "permit cost"
        assert live.counts() == {"rewrites_asked": 1, "fallbacks": {}}
        assert live.problem() == ""
        (spent,) = live.spending().items()
        assert spent[0] == "rewriter m"
        assert [(call["input_tokens"], call["output_tokens"]) for call in spent[1]] == [(7, 3)]
        assert spent[1][0]["dollars"] == pytest.approx((7 * 1 + 3 * 2) / 1e6)
        (third,) = live.with_passages([question(sample, "cloud", 2)])
        assert third["query"] == third["question"]
        (fallback,) = live.counts()["fallbacks"].items()
        assert (live.counts()["rewrites_asked"], fallback[0].startswith("invalid reply: "), fallback[1]) == (2, True, 1)
        assert live.problem() == (
            f"the rewriter rewrote 1 of 2 questions, the others are last turns (1: {fallback[0]})"
        )
        assert sum(call["input_tokens"] for call in live.spending()["rewriter m"]) == 14
        n_asked = len(server.asked)
        again = live_of(sample, tmp_path, **rewriting(server.base_url, price=[1.0, 2.0]))
        assert again.with_passages([question(sample, "govt", 2)]) == [second]
        assert len(server.asked) == n_asked, "a reply is kept in the run store"
    assert live.options() == {"retriever": "bm25", "queries": "llm_rewrite", "rewriter": "m"}


BROKEN = {
    "a": "no",
    "b": "{}",
    "c": json.dumps({"class": "x", "reworded version": "permit"}),
    "d": json.dumps({"class": "non-standalone", "reworded version": 3}),
}


def test_the_three_most_frequent_reasons_of_lost_rewrites_are_reported(sample: Benchmark, tmp_path: Path) -> None:
    reasons = "aaaabbbccd"
    docs = [
        build_doc(sample, task, Setting.FULL_RAG, "live", ())
        for task in [task for task in sample.tasks if task.turn > 1][: len(reasons)]
    ]
    with chat_server(lambda *_: completion(BROKEN[reasons[len(server.asked) - 1]])) as server:
        live = live_of(sample, tmp_path, **rewriting(server.base_url, slots=1))
        live.with_passages(docs)
    text = live.problem()
    assert [reason.split(":")[0] for reason in text.partition("(")[2].split("; ")] == ["4", "3", "2"], text


@pytest.mark.parametrize(("n_broken", "is_enough"), [(1, True), (2, False)])
def test_nineteen_rewrites_of_twenty_are_enough(
    sample: Benchmark, tmp_path: Path, n_broken: int, is_enough: bool
) -> None:
    tasks = [task for task in sample.tasks if task.turn > 1][:20]
    docs = [build_doc(sample, task, Setting.FULL_RAG, "live", ()) for task in tasks]
    with chat_server(lambda *_: rewrite("permit") if len(server.asked) > n_broken else completion("no")) as server:
        live = live_of(sample, tmp_path, **rewriting(server.base_url, slots=1))
        live.with_passages(docs)
    assert (live.problem() == "") == is_enough
    assert sum(live.counts()["fallbacks"].values()) == n_broken


def test_an_injected_passage_is_among_those_of_a_live_question(sample: Benchmark, tmp_path: Path) -> None:
    asked = question(sample, "govt", 1)
    (plain,) = live_of(sample, tmp_path).with_passages([asked])
    live = live_of(sample, tmp_path, injected=1.0)
    (doc,) = live.with_passages([asked])
    assert [row for row in doc["passages"] if row in plain["passages"]] == plain["passages"]
    assert len(doc["passages"]) == len(plain["passages"]) + 1
    assert live.options() == {"retriever": "bm25", "queries": "last_turn", "injected": [INJECTED_VERSION, 1.0]}


def test_a_live_corpus_is_opened_once(sample: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import retrieval_cache

    opened: list[str] = []
    made = retrieval_cache.searcher_of_many

    def counted(benchmark: Benchmark, domain: str, **more: Any) -> Any:
        opened.append(domain)
        return made(benchmark, domain, **more)

    monkeypatch.setattr("retrieval_cache.searcher_of_many", counted)
    live = live_of(sample, tmp_path)
    live.prepare(["govt", "cloud", "govt"])
    live.with_passages([question(sample, "govt", 1)])
    assert opened == ["govt", "cloud"]


def test_a_reranker_of_live_questions_has_its_key_and_its_replies_are_counted(
    sample: Benchmark, tmp_path: Path
) -> None:
    with chat_server(by_overlap) as server:
        keys = {"OPENAI_API_KEY": "sk-4711", "OPENAI_BASE_URL": server.base_url}
        config = config_from_options({"retriever": f"rerank(bm25,listwise:m,base_url={server.base_url})"})
        live = LiveRetrieval(sample, config, tmp_path, keys.get)
        live.with_passages([question(sample, "govt", 1)])
        assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-4711"}
    assert live.spending()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retriever": "bm26"}, "did you mean 'bm25'"),
        ({"queries": "last_trun"}, "did you mean 'last_turn'"),
        ({"queries": "llm_rewrite"}, "'llm_rewrite' requires a rewriter"),
    ],
)
def test_invalid_retrieval_options_are_refused_before_a_request(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_retrieval(config_from_options(options), tmp_path, no_secrets)


def test_valid_and_unset_retrieval_options_are_accepted(tmp_path: Path) -> None:
    for options in (
        {},
        {"retriever": "bm25s", "queries": "last_2_turns"},
        rewriting("http://127.0.0.1:9/v1"),
    ):
        check_retrieval(config_from_options(options), tmp_path, no_secrets)
