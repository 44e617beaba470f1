"""Listwise reranking by a real loopback endpoint that ranks by words shared with the query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.clients import CachedClient, OpenAIClient, Prompt, Reply, ReplyCache, endpoint_of
from ragtasks.errors import CacheError, ConfigurationError, JudgeError
from ragtasks.files import Ranked, in_rank_order, read_contexts
from ragtasks.records import Passage, Setting
from retrieval_cache.rerankers import ListwiseOptions, ListwiseReranker, RerankedRetriever, falling_scores
from retrieval_cache.service import Workspace, retrieve
from retrieval_cache.spec import parse
from retrieval_cache.stage import read_run
from tests.clients._server import Action, chat_server, completion, refusal
from tests.retrieval_cache.rerankers.test_cross_encoder import PASSAGES, SharedWords

LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def overlap(query: str, text: str) -> int:
    return len(words_of(query) & words_of(text))


def parts_of(prompt: str) -> tuple[str, list[str]]:
    """Return query and passages of a prompt, after checking that they are numbered from 1."""
    (query,) = set(re.findall(r"^Query: (.*)$", prompt, re.MULTILINE))
    passages = LINE.findall(prompt)
    assert [int(number) for number, _ in passages] == list(range(1, len(passages) + 1))
    return query, [text for _, text in passages]


def by_overlap(prompt: str, n_before: int) -> Action:
    query, passages = parts_of(prompt)
    order = sorted(range(len(passages)), key=lambda index: -overlap(query, passages[index]))
    return completion(" > ".join(f"[{index + 1}]" for index in order))


def reranker(url: str, **options: Any) -> ListwiseReranker:
    endpoint = endpoint_of({"model": "m", "base_url": url, "attempts": 2, "backoff_seconds": 0.01})
    return ListwiseReranker(OpenAIClient(endpoint), endpoint, ListwiseOptions(**options))


def lists_of(sizes: Sequence[int]) -> list[tuple[str, list[Passage]]]:
    """Return lists whose passage n shares n words with the query, worst first."""
    words = [f"word{number}" for number in range(max(sizes, default=0))]
    return [
        (" ".join(words), [Passage(f"{size}-{number}", " ".join(words[:number]) or "none") for number in range(size)])
        for size in sizes
    ]


def test_windows_of_all_queries_are_ordered_at_once() -> None:
    lists = lists_of([25, 20, 7, 1, 0])
    with chat_server(by_overlap) as server:
        model = reranker(server.base_url, window=20, stride=10)
        orders = model.order(lists)
        calls = [(len(parts_of(text)[1]), text) for text in server.asked]
    # 25 candidates: the last window lifts its best ten into the next window.
    first = [*range(5), *range(24, 4, -1)]
    expected = [*sorted(first[:15], reverse=True), *first[15:]]
    assert [passage.passage_id for passage in orders[0]] == [f"25-{number}" for number in expected]
    assert [passage.passage_id for passage in orders[1]] == [f"20-{number}" for number in range(19, -1, -1)]
    assert [passage.passage_id for passage in orders[2]] == [f"7-{number}" for number in range(6, -1, -1)]
    assert orders[3:] == [lists[3][1], []]
    assert sorted(size for size, _ in calls) == [7, 15, 20, 20]
    assert calls[-1][0] == 15
    assert model.statistics() == {"windows": 4, "ok": 4, "reasons": {}}


def test_each_pass_starts_from_the_previous_order() -> None:
    lists = lists_of([25])
    with chat_server(by_overlap) as server:
        (once,) = reranker(server.base_url, passes=1).order(lists)
        (thrice,) = reranker(server.base_url, passes=3).order(lists)
        assert len(server.asked) == 2 + 6
    best_first = [f"25-{number}" for number in range(24, -1, -1)]
    assert [passage.passage_id for passage in once] != best_first
    assert [passage.passage_id for passage in thrice] == best_first


def test_requests_of_all_queries_are_sent_concurrently() -> None:
    def slow(prompt: str, n_before: int) -> Action:
        action = by_overlap(prompt, n_before)
        return Action(action.body, delay_seconds=0.2)

    with chat_server(slow) as server:
        reranker(server.base_url).order([(f"query {number}", lists_of([3])[0][1]) for number in range(6)])
        assert server.most_open == 6


def test_reply_formats_are_counted_and_repaired() -> None:
    replies = {"a": "[2] > [1] > [3]", "b": "[3] > [3] > [1]", "c": "[2]", "d": "no idea", "e": "2, 1, 3"}
    lists = [(query, [Passage(f"{query}{number}", "text") for number in (1, 2, 3)]) for query in replies]
    with chat_server(lambda prompt, _: completion(replies[parts_of(prompt)[0]])) as server:
        model = reranker(server.base_url)
        orders = ["".join(passage.passage_id[1:] for passage in order) for order in model.order(lists)]
    assert orders == ["213", "312", "213", "123", "213"]
    counts = {"ok": 1, "repetition": 1, "missing_documents": 1, "wrong_format": 2}
    assert model.statistics() == {"windows": 5, **counts, "reasons": {}}


def failing_for(word: str) -> Callable[[str, int], Action]:
    return lambda prompt, n: refusal(400, "the prompt is too long") if word in prompt else by_overlap(prompt, n)


def test_windows_without_a_reply_keep_their_order_and_are_counted() -> None:
    lists = [("mars moon", PASSAGES[:4]), ("bee poison", PASSAGES[:4])]
    with chat_server(failing_for("poison")) as server:
        model = reranker(server.base_url, max_unanswered=0.5)
        orders = model.order(lists)
    assert orders[1] == PASSAGES[:4]
    facts = model.statistics()
    assert (facts["windows"], facts["unanswered"], facts["ok"]) == (2, 1, 1)
    ((reason, count),) = facts["reasons"].items()
    assert reason == "failed: the server's context is too short (HTTP 400: the prompt is too long)"
    assert count == 1


def test_too_many_windows_without_a_reply_are_an_error_with_reason_and_next_step() -> None:
    lists = [("mars moon", PASSAGES[:4]), ("bee poison", PASSAGES[:4])]
    message = (
        r"(?s)all but 5% of 2 windows.*1 without one: 1 x failed: .*too long.*run the same command again.*fewer words"
    )
    with chat_server(failing_for("poison")) as server, pytest.raises(JudgeError, match=message):
        reranker(server.base_url).order(lists)


def test_a_repeated_call_only_requests_missing_replies(tmp_path: Path) -> None:
    lists = [(f"{query} number {number}", PASSAGES) for number, query in enumerate(["mars moon", "bee", "loan rate"])]
    options = ListwiseOptions(window=8, stride=4)

    def order(url: str) -> list[list[Passage]]:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            endpoint = endpoint_of({"model": "m", "base_url": url, "slots": 1})
            client = CachedClient(OpenAIClient(endpoint), cache)
            return ListwiseReranker(client, endpoint, options).order(lists)

    with chat_server(by_overlap) as server:
        expected = reranker(server.base_url, window=8, stride=4).order(lists)
        n_windows = len(server.asked)
        server.script = lambda prompt, n: refusal(401) if len(server.asked) > n_windows + 5 else by_overlap(prompt, n)
        with pytest.raises(JudgeError):
            order(server.base_url)
        n_answered = len(server.asked) - n_windows - 1
        server.asked.clear()
        server.script = by_overlap
        assert order(server.base_url) == expected
        assert n_answered == 5
        assert len(server.asked) == n_windows - n_answered == 12 - 5
        assert order(server.base_url) == expected
        assert len(server.asked) == n_windows - n_answered


def test_each_rank_keeps_the_score_of_the_first_retriever(tmp_path: Path) -> None:
    with chat_server(by_overlap) as server:
        first, second = SharedWords(), reranker(server.base_url)
        retriever = RerankedRetriever(first, second, depth=6)
        retriever.index(PASSAGES, tmp_path)
        queries = {"a": "mars moon bee flower", "none": "nothing known"}
        before = first.search(queries, 6)["a"]
        run = retriever.search(queries, 4)
    assert retriever.name == f"rerank(shared-words,{second.name},depth=6)"
    assert run["none"] == ()
    assert run["a"] == in_rank_order(run["a"])
    assert len(run["a"]) == 4
    texts = {passage.passage_id: passage.text for passage in PASSAGES}
    shared = [overlap(queries["a"], texts[ranked.passage_id]) for ranked in run["a"]]
    assert shared == sorted((overlap(queries["a"], texts[ranked.passage_id]) for ranked in before), reverse=True)[:4]
    assert [ranked.score for ranked in run["a"]] == pytest.approx([ranked.score for ranked in before[:4]], rel=1e-6)


class Backwards:
    """A model that reverses every window."""

    name = "backwards"

    def describe(self) -> Mapping[str, Any]:
        return {"model": "backwards"}

    def answer(self, prompts: Sequence[Prompt], *_: Any) -> list[Reply]:
        from ragtasks.clients import read_text

        sizes = [len(parts_of(prompt.messages[-1].content)[1]) for prompt in prompts]
        return [read_text(" > ".join(f"[{number}]" for number in range(size, 0, -1))) for size in sizes]


def test_equal_scores_of_the_first_retriever_keep_the_models_order(tmp_path: Path) -> None:
    retriever = RerankedRetriever(
        SharedWords(), ListwiseReranker(Backwards(), endpoint_of("openai/backwards")), depth=3
    )
    retriever.index([Passage(name, "bee") for name in "abc"], tmp_path)
    ranking = retriever.search({"q": "bee"}, 3)["q"]
    assert [ranked.passage_id for ranked in ranking] == ["a", "b", "c"]  # ties were in the order c, b, a
    assert ranking[0] == Ranked("a", 1.0)
    assert ranking == in_rank_order(ranking)


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_falling_scores_decrease_for_trec_eval_and_only_change_ties(scores: list[float]) -> None:
    given_scores = sorted(scores, reverse=True)
    falling = falling_scores(given_scores)
    if len(set(np.float32(given_scores).tolist())) == len(given_scores):
        assert falling == given_scores
    ranking = [Ranked(f"{number:03}", score) for number, score in enumerate(falling)]
    assert list(in_rank_order(ranking)) == ranking
    assert falling == pytest.approx(given_scores, rel=1e-5, abs=1e-40)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("rerank( bm25 , listwise:openai/gpt )", "rerank(bm25,listwise:openai/gpt,depth=100)"),
        (
            "rerank(bm25,listwise:m,passes=3,base_url=http://localhost:1/v1,depth=50,window=20)",
            "rerank(bm25,listwise:m,base_url=http://localhost:1/v1,passes=3,depth=50)",
        ),
        (
            "rerank(hybrid(bm25,bm25-standard),listwise:openai/o,max_tokens=8000,max_unanswered=0,words=100)",
            "rerank(hybrid(bm25,bm25-standard),listwise:openai/o,max_tokens=8000,max_unanswered=0,words=100,depth=100)",
        ),
    ],
)
def test_lines_are_parsed_and_written_in_canonical_form(line: str, name: str) -> None:
    retriever = parse(line)
    assert retriever.name == name
    assert parse(name).name == name
    assert parse(name).describe() == retriever.describe()


def test_every_option_except_limit_and_address_changes_the_description() -> None:
    def described(options: str) -> Mapping[str, Any]:
        return parse(f"rerank(bm25,listwise:m,base_url=http://localhost:1{options})").describe()

    for option in ("window=19", "stride=9", "passes=2", "words=299", "max_tokens=9", "depth=99"):
        assert described(f",{option}") != described("")
    assert described("/v2,max_unanswered=0.5") == described("")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("openai/m,window=1", "window(.|\n)*from 2(.|\n)*found: 1"),
        ("openai/m,window=2.5", "window(.|\n)*whole number"),
        ("openai/m,stride=21", "stride(.|\n)*from 1 to 20"),
        ("openai/m,passes=0", "passes"),
        ("openai/m,words=true", "words(.|\n)*True"),
        ("openai/m,max_unanswered=2", "max_unanswered(.|\n)*0 to 1"),
        ("openai/m,max_tokens=0", "max_tokens"),
        ("openai/m,depth=0", "depth"),
        ("openai/m,widow=3", "did you mean 'window'"),
        ("m", "needs base_url"),
        ("m,base_url=localhost", "must begin with http"),
    ],
)
def test_invalid_options_are_refused(options: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse(f"rerank(bm25,listwise:{options})")


def test_a_key_in_the_line_is_refused_without_printing_it() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY") as error:
        parse("rerank(bm25,listwise:openai/m,api_key=hunter2)")
    assert "hunter2" not in str(error.value)


def test_invalid_calls_give_clear_errors(tmp_path: Path) -> None:
    retriever = RerankedRetriever(
        SharedWords(), ListwiseReranker(Backwards(), endpoint_of("openai/backwards")), depth=5
    )
    with pytest.raises(CacheError, match="call index first"):
        retriever.search({"q": "bee"}, 2)
    retriever.index(PASSAGES, tmp_path)
    with pytest.raises(ConfigurationError, match="depth to at least 6"):
        retriever.search({"q": "bee"}, 6)


@pytest.mark.slow
def test_a_stored_run_contains_order_and_counts_and_is_reused_without_requests(tmp_path: Path) -> None:
    workspace = Workspace("mtrag", "sample", tmp_path / "data", tmp_path / "store", {"LISTWISE_KEY": "sk-secret"}.get)
    with chat_server(by_overlap) as server:
        line = f"rerank(bm25,listwise:m,base_url={server.base_url},api_key_env=LISTWISE_KEY,window=8,stride=4,depth=12)"
        plain = retrieve(workspace, "bm25", "last_turn", depth=12)
        run = retrieve(workspace, line, "last_turn", depth=5, name="listwise")
        n_asked = len(server.asked)
        shallow = retrieve(workspace, line, "last_turn", depth=4)
        assert len(server.asked) == n_asked
        assert server.headers[0]["authorization"] == "Bearer sk-secret"
    facts = run.manifest.metadata["retrieval"]
    n_windows = sum(counts["windows"] for counts in facts.values())
    assert n_windows == sum(counts["ok"] for counts in facts.values()) >= n_asked > 0
    assert not list(run.folder.glob("*.part"))
    first, reranked = read_run(plain), read_run(run)
    for query_id, ranking in reranked.items():
        assert {ranked.passage_id for ranked in ranking} <= {ranked.passage_id for ranked in first[query_id]}
    assert any(
        [ranked.passage_id for ranked in ranking] != [ranked.passage_id for ranked in first[query_id]][:5]
        for query_id, ranking in reranked.items()
    )
    assert read_run(shallow) == {query_id: ranking[:4] for query_id, ranking in reranked.items()}
    contexts = read_contexts(run.folder, Setting.FULL_RAG).passages
    for query_id, ranking in reranked.items():
        assert [passage.passage_id for passage in contexts[query_id]] == [ranked.passage_id for ranked in ranking]
    assert "sk-secret" not in (run.folder / "manifest.json").read_text()
