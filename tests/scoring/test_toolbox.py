"""Tools of a model that searches: what they find, what they refuse, and that a query is searched for once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.records import CallProblem, Ending
from ragtasks.scoring import Toolbox, ToolCall, ToolLimits, ToolSession
from retrieval_cache import searcher
from tests.clients._server import chat_server
from tests.retrieval_cache.rerankers.test_listwise import by_overlap

QUERY = "How much does a permit cost?"


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


@pytest.fixture(scope="module")
def toolbox(sample: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    return Toolbox(sample, "bm25", tmp_path_factory.mktemp("store"))


@pytest.fixture
def session(toolbox: Toolbox) -> ToolSession:
    return toolbox.session("govt")


def found_file(store: Path) -> Path:
    (file,) = (store / "searches").glob("*/found.jsonl")
    return file


def test_a_search_finds_what_full_rag_is_given(sample: Benchmark, session: ToolSession, tmp_path: Path) -> None:
    result = session.call("search", {"query": QUERY})
    expected = searcher(sample, "govt", "bm25", tmp_path)(QUERY)
    assert result.passages == expected
    assert result.text.startswith(f"[1] id: {expected[0].passage_id}\n")
    assert all(passage.text.strip() in result.text for passage in expected)
    (step,) = session.end(Ending.ANSWERED).steps
    assert step.passages == tuple(passage.passage_id for passage in expected)
    assert len(step.scores) == 5
    assert list(step.scores) == sorted(step.scores, reverse=True)


def test_passages_have_one_number_each_and_can_be_shortened(session: ToolSession) -> None:
    first = session.call("search", {"query": QUERY, "k": 2})
    again = session.call("search", {"query": QUERY, "k": 3})
    assert (first.numbers, again.numbers) == ((1, 2), (1, 2, 3))
    heads = [f"[{number}] id: {passage.passage_id}" for number, passage in zip((1, 2), first.passages, strict=True)]
    assert first.shortened(0) == "\n\n".join(f"{head} [...]" for head in heads)
    assert first.shortened(30).startswith(f"{heads[0]}\n{first.passages[0].text.strip()[:30].rstrip()} [...]")
    assert first.shortened(10**6) == first.text


def test_reading_shows_a_passage_between_its_neighbours(session: ToolSession) -> None:
    first = session.call("search", {"query": QUERY, "k": 1}).passages[0]
    around = session.call("read", json.dumps({"passage_id": first.passage_id})).passages
    assert [item.passage_id for item in around] == [
        *("harrowick-deck-permits-1251-1812", "harrowick-deck-permits-1813-2371"),
    ], "the last of its document, behind the one before it"
    assert first == around[1]
    trajectory = session.end(Ending.ANSWERED)
    assert trajectory.steps[1].scores == ()
    assert trajectory.last_passages == tuple(item.passage_id for item in around)
    assert trajectory.seen == tuple(item.passage_id for item in session.passages)
    assert set(trajectory.seen) == {item.passage_id for item in around}
    assert len(session.call("read", {"passage_id": around[0].passage_id}).passages) == 3, "one before and one behind"


BAD = CallProblem.MALFORMED
NOT = "The call was not understood: "


@pytest.mark.parametrize(
    ("tool", "arguments", "problem", "text"),
    [
        ("fly", {}, CallProblem.UNKNOWN_TOOL, "There is no tool 'fly'. The tools are search and read."),
        ("search", "{", BAD, NOT + "arguments must be a JSON object."),
        ("search", ["x"], BAD, NOT + "arguments must be a JSON object."),
        ("search", {}, BAD, NOT + "query must be a text that is not empty."),
        ("search", {"query": " \0"}, BAD, NOT + "query must be a text that is not empty."),
        ("search", {"query": "x", "k": 0}, BAD, NOT + "k must be a whole number from 1 to 20."),
        ("search", {"query": "x", "k": True}, BAD, NOT + "k must be a whole number from 1 to 20."),
        ("search", {"query": "x", "top": 3}, BAD, NOT + "search takes query and k, and got 'top'."),
        (
            "search",
            {"query": "x" * 10_240},
            CallProblem.QUERY_TOO_LONG,
            "The query has 10240 characters; at most 1000 are allowed. Search with fewer words.",
        ),
        (
            "read",
            {"passage_id": "made-up"},
            CallProblem.UNKNOWN_PASSAGE,
            "There is no passage 'made-up'. Read ids that a search showed.",
        ),
        ("read", {"passage_id": 7}, BAD, NOT + "passage_id must be the id of a passage, a text."),
        ("read", {"passage_id": "x", "k": 2}, BAD, NOT + "read takes passage_id, and got 'k'."),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_a_problem(
    session: ToolSession, tool: str, arguments: Any, problem: CallProblem, text: str
) -> None:
    result = session.call(tool, arguments)
    assert (result.problem, result.text, result.passages) == (problem, text, ())
    (step,) = session.end(Ending.ANSWERED).steps
    assert (step.problem, step.passages, step.is_search) == (problem, (), False)
    assert session.calls_left == 7


def test_a_million_passages_are_twenty(session: ToolSession) -> None:
    result = session.call("search", {"query": "permit park city", "k": 10**6})
    assert len(result.passages) == 20
    assert result.text.startswith("(The first 20: a search shows no more.)")
    (step,) = session.end(Ending.ANSWERED).steps
    assert (step.is_bounded, step.arguments) == (True, {"query": "permit park city", "k": 10**6})


def test_what_finds_nothing_is_no_problem_of_the_call(session: ToolSession) -> None:
    result = session.call("search", {"query": "zzzz"})
    assert (result.text, result.problem) == ("Nothing was found. Try other words.", None)


def test_the_same_query_for_ever_ends_at_the_limit(sample: Benchmark, tmp_path: Path) -> None:
    toolbox = Toolbox(sample, "bm25", tmp_path, limits=ToolLimits(calls=3))
    session = toolbox.session("govt")
    results = [session.call("search", {"query": query}) for query in (QUERY, QUERY.upper(), f" {QUERY} ", QUERY, QUERY)]
    problems = [None, None, None, CallProblem.OUT_OF_CALLS, CallProblem.OUT_OF_CALLS]
    assert [result.problem for result in results] == problems
    assert results[-1].text == "No calls are left: 3 were all. Give your answer now."
    assert [step.is_repeat for step in session.end(Ending.OUT_OF_CALLS).steps] == [False, True, True, True, True]
    assert toolbox.n_searched == 2


def test_a_reranker_behind_the_tools_has_its_key(sample: Benchmark, tmp_path: Path) -> None:
    with chat_server(by_overlap) as server:
        keys = {"OPENAI_API_KEY": "sk-4711", "OPENAI_BASE_URL": server.base_url}
        toolbox = Toolbox(sample, f"rerank(bm25,listwise:m,base_url={server.base_url})", tmp_path, keys.get)
        assert toolbox.session("govt").call("search", {"query": QUERY}).passages
    assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-4711"}


def test_a_query_is_searched_for_once_ever(sample: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Toolbox(sample, "bm25", tmp_path)
    found = first.session("govt").call("search", {"query": QUERY})
    second = Toolbox(sample, "bm25", tmp_path)
    second.prepare(["govt"])
    monkeypatch.setattr("retrieval_cache.searches.searched", lambda *_: pytest.fail("searched again"))
    assert second.session("govt").call("search", {"query": QUERY}) == found
    assert (first.n_searched, second.n_searched) == (1, 0)
    made_of = json.loads(found_file(tmp_path).with_name("made_of.json").read_text())
    assert made_of["retriever"]["name"] == "bm25"
    assert second.describe()["searches"]["govt"][:32] == found_file(tmp_path).parent.name


def test_a_line_that_a_kill_cut_off_is_searched_again(sample: Benchmark, tmp_path: Path) -> None:
    whole = [Toolbox(sample, "bm25", tmp_path).session("govt").call("search", {"query": q}) for q in (QUERY, "parks")]
    file = found_file(tmp_path)
    content = file.read_bytes()
    assert content.count(b"\n") == 2
    file.write_bytes(content[:-20])
    again = Toolbox(sample, "bm25", tmp_path)
    assert [again.session("govt").call("search", {"query": query}) for query in (QUERY, "parks")] == whole
    assert again.n_searched == 1
    assert file.read_bytes() == content


def test_a_corrupt_file_of_searches_is_one_error(sample: Benchmark, tmp_path: Path) -> None:
    Toolbox(sample, "bm25", tmp_path).session("govt").call("search", {"query": QUERY})
    found_file(tmp_path).write_text("{}\n")
    with pytest.raises(CacheError, match=r"found\.jsonl is corrupt; next step: remove it"):
        Toolbox(sample, "bm25", tmp_path).prepare(["govt"])


def test_two_that_share_a_store_search_once(sample: Benchmark, tmp_path: Path) -> None:
    one, other = (Toolbox(sample, "bm25", tmp_path) for _ in range(2))
    one.prepare(["govt"])
    other.prepare(["govt"])
    one.session("govt").call("search", {"query": QUERY})
    other.session("govt").call("search", {"query": QUERY})
    assert (one.n_searched, other.n_searched) == (1, 0)


def test_calls_of_many_tasks_are_one_search_a_corpus(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    import retrieval_cache.searches

    batches: list[list[str]] = []
    searched = retrieval_cache.searches.searched

    def counted(retriever: Any, queries: Mapping[str, str], *more: Any) -> Any:
        batches.append(list(queries))
        return searched(retriever, queries, *more)

    monkeypatch.setattr("retrieval_cache.searches.searched", counted)
    sessions = [toolbox.session(domain) for domain in ("govt", "clapnq", "govt")]
    calls = [ToolCall("search", {"query": f"permit {place} song"}) for place in range(3)]
    results = toolbox.call_all([*zip(sessions, calls, strict=True), (sessions[0], ToolCall("fly", {}))])
    assert batches == [["permit 0 song", "permit 2 song"], ["permit 1 song"]]
    assert [bool(result.passages) for result in results] == [True, True, True, False]
    assert results[2] == toolbox.session("govt").call("search", {"query": "permit 2 song"})


def test_the_schemas_say_what_calls_take(toolbox: Toolbox) -> None:
    search, read = toolbox.schemas()
    assert (search["name"], search["parameters"]["required"]) == ("search", ["query"])
    assert search["parameters"]["properties"]["k"]["maximum"] == 20
    assert (read["name"], read["parameters"]["required"]) == ("read", ["passage_id"])
    arguments = search["parameters"]["properties"] | read["parameters"]["properties"]
    assert {name: argument["type"] for name, argument in arguments.items()} == {
        "query": "string",
        "k": "integer",
        "passage_id": "string",
    }


def test_an_unknown_retriever_is_refused_before_anything_is_read(sample: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bm26"):
        Toolbox(sample, "bm26", tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
ARGUMENTS = st.one_of(
    JSON,
    st.text(st.characters()),
    st.fixed_dictionaries({"query": JSON | st.text(st.characters())}, optional={"k": JSON}),
    st.fixed_dictionaries({"passage_id": JSON}),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tool=st.sampled_from(["search", "read"]) | st.text(), arguments=ARGUMENTS)
def test_nothing_that_a_model_writes_raises(toolbox: Toolbox, tool: str, arguments: Any) -> None:
    session = toolbox.session("govt")
    result = session.call(tool, arguments)
    assert result.text
    (step,) = session.end(Ending.ANSWERED).steps
    json.dumps([step.tool, dict(step.arguments)], allow_nan=False).encode()
    assert (step.problem is None) or not step.passages
