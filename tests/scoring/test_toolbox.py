"""Tools of a model that searches: results, refusals, and searching a query only once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import INJECTED_VERSION, Benchmark
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.records import CallProblem, Ending, Passage
from ragtasks.scoring import Toolbox, ToolCall, ToolLimits, ToolResult, ToolSession
from retrieval_cache import searcher
from tests._messages import raises
from tests.clients._server import chat_server
from tests.retrieval_cache.rerankers.test_listwise import by_overlap

QUERY = "How much does a permit cost?"


@pytest.fixture(scope="module")
def toolbox(sample: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    return Toolbox(sample, "bm25", tmp_path_factory.mktemp("store"))


@pytest.fixture
def session(toolbox: Toolbox) -> ToolSession:
    return toolbox.session("govt")


def found_file(store: Path) -> Path:
    (file,) = (store / "searches").glob("*/found.jsonl")
    return file


def test_a_search_returns_the_passages_of_full_rag(sample: Benchmark, session: ToolSession, tmp_path: Path) -> None:
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


def test_reading_shows_a_passage_between_its_neighbors(session: ToolSession) -> None:
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
def test_an_impossible_call_gives_a_sentence_and_a_problem(
    session: ToolSession, tool: str, arguments: Any, problem: CallProblem, text: str
) -> None:
    result = session.call(tool, arguments)
    assert (result.problem, result.text, result.passages) == (problem, text, ())
    (step,) = session.end(Ending.ANSWERED).steps
    assert (step.problem, step.passages, step.is_search) == (problem, (), False)
    assert session.calls_left == 7


def test_a_million_passages_are_limited_to_twenty(session: ToolSession) -> None:
    result = session.call("search", {"query": "permit park city", "k": 10**6})
    assert len(result.passages) == 20
    assert result.text.startswith("(The first 20: a search shows no more.)")
    (step,) = session.end(Ending.ANSWERED).steps
    assert (step.is_bounded, step.arguments) == (True, {"query": "permit park city", "k": 10**6})


def test_an_empty_result_is_no_problem_of_the_call(session: ToolSession) -> None:
    result = session.call("search", {"query": "zzzz"})
    assert (result.text, result.problem) == ("Nothing was found. Try other words.", None)


def test_an_endlessly_repeated_query_ends_at_the_limit(sample: Benchmark, tmp_path: Path) -> None:
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


def test_a_query_is_searched_only_once(sample: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_truncated_line_is_searched_again(sample: Benchmark, tmp_path: Path) -> None:
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
    with raises(CacheError):
        Toolbox(sample, "bm25", tmp_path).prepare(["govt"])


def test_two_processes_with_one_store_search_once(sample: Benchmark, tmp_path: Path) -> None:
    one, other = (Toolbox(sample, "bm25", tmp_path) for _ in range(2))
    one.prepare(["govt"])
    other.prepare(["govt"])
    one.session("govt").call("search", {"query": QUERY})
    other.session("govt").call("search", {"query": QUERY})
    assert (one.n_searched, other.n_searched) == (1, 0)


def test_calls_of_many_tasks_are_one_search_per_corpus(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    import retrieval_cache.searches

    batches: list[list[str]] = []
    searched = retrieval_cache.searches.searched

    def counted(retriever: Any, queries: Mapping[str, str], *more: Any) -> Any:
        batches.append(list(queries))
        return searched(retriever, queries, *more)

    monkeypatch.setattr("retrieval_cache.searches.searched", counted)
    sessions = [toolbox.session(domain) for domain in ("govt", "clapnq", "govt")]
    calls = [ToolCall("search", {"query": f"permit {index} song"}) for index in range(3)]
    results = toolbox.call_all([*zip(sessions, calls, strict=True), (sessions[0], ToolCall("fly", {}))])
    assert batches == [["permit 0 song", "permit 2 song"], ["permit 1 song"]]
    assert [bool(result.passages) for result in results] == [True, True, True, False]
    assert results[2] == toolbox.session("govt").call("search", {"query": "permit 2 song"})


def test_the_schemas_describe_the_arguments(toolbox: Toolbox) -> None:
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


def test_an_unknown_retriever_is_refused_before_any_file_is_read(sample: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bm26"):
        Toolbox(sample, "bm26", tmp_path)


def test_a_schema_contains_every_limit_and_allows_no_other_argument(sample: Benchmark, tmp_path: Path) -> None:
    limits = ToolLimits(k=3, most_k=7, query_characters=50)
    search, read = Toolbox(sample, "bm25", tmp_path, limits=limits).schemas()
    for schema in (search, read):
        assert schema.keys() == {"name", "description", "parameters"}
        assert schema["description"].endswith(".")
        assert schema["parameters"]["type"] == "object"
        assert schema["parameters"]["additionalProperties"] is False
        assert all(item.pop("description").islower() for item in schema["parameters"]["properties"].values())
    assert search["description"].startswith("Search the documents. ")
    assert search["parameters"]["properties"] == {
        "query": {"type": "string", "maxLength": 50},
        "k": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
    }
    assert read["parameters"]["properties"] == {"passage_id": {"type": "string"}}


@pytest.mark.parametrize(
    ("k", "n", "is_bounded"),
    [
        (None, 5, False),
        (1, 1, False),
        (20, 20, False),
        (21, 20, True),
        ("3", 3, False),
        (" 3 ", 3, False),
        (3.0, 3, False),
    ],
)
def test_a_search_shows_the_requested_number_of_passages(
    session: ToolSession, k: Any, n: int, is_bounded: bool
) -> None:
    result = session.call("search", {"query": "permit park city", "k": k})
    assert (len(result.passages), result.problem) == (n, None)
    assert result.text.startswith("(The first 20: ") == is_bounded
    (step,) = session.end(Ending.ANSWERED).steps
    assert step.is_bounded == is_bounded
    assert len(step.passages) == len(step.scores) == n


@pytest.mark.parametrize("k", ["x", "", "-1", -1, 1.5, [3], "9" * 30, False])
def test_a_k_that_is_no_positive_integer_is_refused(session: ToolSession, k: Any) -> None:
    result = session.call("search", {"query": "permit", "k": k})
    assert (result.problem, result.text) == (BAD, NOT + "k must be a whole number from 1 to 20.")


def test_a_query_is_limited_in_length_and_collapsed_to_one_line(sample: Benchmark, tmp_path: Path) -> None:
    toolbox = Toolbox(sample, "bm25", tmp_path, limits=ToolLimits(query_characters=11))
    session = toolbox.session("govt")
    assert session.call("search", {"query": " permit\n  cost\0 "}).problem is None
    assert session.call("search", {"query": "permit costs"}).problem is CallProblem.QUERY_TOO_LONG
    assert [step.arguments for step in session.end(Ending.ANSWERED).steps] == [
        {"query": "permit cost"},
        {"query": "permit costs"},
    ]


def test_a_record_contains_short_texts_exact_numbers_and_otherwise_types(session: ToolSession) -> None:
    given = {
        **{"list": [1], "object": {"a": 1}, "long": "x" * 201, "none": None, "yes": True, "half": 0.5},
        **{"large": 2**53, "exact": 2**53 - 1, "below": -(2**53), "infinite": float("inf"), "n" * 41: 1},
    }
    session.call("t" * 201, given)
    (step,) = session.end(Ending.ANSWERED).steps
    assert step.tool == "t" * 200
    assert step.arguments == {
        **{"list": "(list)", "object": "(dict)", "long": "x" * 200, "none": None, "yes": True, "half": 0.5},
        **{"large": "(int)", "exact": 2**53 - 1, "below": "(int)", "infinite": "(float)", "n" * 40: 1},
    }
    session.call("search", "[")
    assert session.end(Ending.ANSWERED).steps[1].arguments == {"unread": "["}


def test_an_error_message_shows_the_start_of_an_invented_name(session: ToolSession) -> None:
    name, cut = "x" * 90, "x" * 40
    assert session.call(name, {}).text == f"There is no tool {cut!r}. The tools are search and read."
    assert session.call("search", {name: 1}).text == f"{NOT}search takes query and k, and got {cut!r}."
    assert session.call("search", {"b": 1, "a": 1}).text == f"{NOT}search takes query and k, and got 'a'."
    assert session.call("read", {name: 1}).text == f"{NOT}read takes passage_id, and got {cut!r}."
    assert session.call("read", {"passage_id": "x" * 90}).text.startswith(f"There is no passage {'x' * 80!r}.")
    for arguments in ({}, {"passage_id": " "}):
        assert session.call("read", arguments).text == f"{NOT}passage_id must be the id of a passage, a text."


def test_calls_are_equal_despite_case_whitespace_and_order(session: ToolSession) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "permit", "k": 2}),
        ("search", {"k": 2, "query": "PERMIT"}),
        ("search", {"query": "permit", "k": 3}),
        ("read", {"passage_id": "permit"}),
        ("fly", {"to": "the  Park"}),
        ("fly", {"to": "The park "}),
    ]
    for call in calls:
        session.call(*call)
    assert [step.is_repeat for step in session.end(Ending.ANSWERED).steps] == [False, True, False, False, False, True]


def test_passages_shown_before_have_the_first_numbers(toolbox: Toolbox) -> None:
    first, second = toolbox.session("govt").call("search", {"query": QUERY, "k": 2}).passages
    cached = Passage("before", "Known before.")
    session = toolbox.session("govt", [cached, second])
    assert list(session.passages) == [cached, second]
    result = session.call("search", {"query": QUERY, "k": 2})
    assert result.numbers == (3, 2)
    assert list(session.passages) == [cached, second, first]
    assert session.call("read", {"passage_id": "before"}).passages == (cached,), "it is in no corpus"
    assert session.end(Ending.ANSWERED).seen == (first.passage_id, second.passage_id, "before")


def test_steps_record_their_reply_and_a_session_its_ending(toolbox: Toolbox) -> None:
    session = toolbox.session("govt")
    session.call("search", {"query": QUERY})
    session.round += 1
    session.call("fly", {})
    found = session.end(Ending.GAVE_UP, n_shortened=4)
    assert [step.round for step in found.steps] == [1, 2]
    assert (found.ending, found.n_rounds, found.n_shortened) == (Ending.GAVE_UP, 2, 4)
    assert session.calls_left == 6


def test_remaining_calls_are_never_negative(sample: Benchmark, tmp_path: Path) -> None:
    session = Toolbox(sample, "bm25", tmp_path, limits=ToolLimits(calls=1)).session("govt")
    left = [session.calls_left]
    for _ in range(3):
        session.call("fly", {})
        left.append(session.calls_left)
    assert left == [1, 0, 0, 0]


def test_the_description_contains_retriever_limits_and_searches(sample: Benchmark, tmp_path: Path) -> None:
    plain = Toolbox(sample, "bm25", tmp_path)
    limits = {"calls": 8, "k": 5, "most_k": 20, "query_characters": 1000, "neighbours": 1}
    assert plain.describe() == {"retriever": "bm25", **limits, "searches": {}}
    plain.prepare(["govt", "cloud", "govt"])
    assert list(plain.describe()["searches"]) == ["govt", "cloud"]
    injecting = Toolbox(sample, "bm25", tmp_path, injected_share=0.5)
    assert injecting.describe() == {**plain.describe(), "injected": [INJECTED_VERSION, 0.5], "searches": {}}


def test_an_injected_passage_is_in_every_search_and_can_be_read(sample: Benchmark, tmp_path: Path) -> None:
    plain = Toolbox(sample, "bm25", tmp_path).session("govt").call("search", {"query": QUERY})
    toolbox = Toolbox(sample, "bm25", tmp_path, injected_share=1.0)
    session = toolbox.session("govt")
    result = session.call("search", {"query": QUERY})
    assert [item for item in result.passages if item in plain.passages] == list(plain.passages)
    (own,) = (item for item in result.passages if item not in plain.passages)
    assert session.end(Ending.ANSWERED).steps[0].scores == (), "no retriever ranked it"
    assert session.call("read", {"passage_id": own.passage_id}).passages == (own,)
    assert toolbox.passage("govt", own.passage_id) is None
    assert toolbox.session("govt").call("search", {"query": QUERY}) == result, "the same one for the same query"


def test_a_passage_is_returned_by_its_id_from_its_own_corpus(toolbox: Toolbox) -> None:
    (found,) = toolbox.session("govt").call("search", {"query": QUERY, "k": 1}).passages
    assert toolbox.passage("govt", found.passage_id) == found
    assert toolbox.passage("cloud", found.passage_id) is None


def test_the_limit_sets_the_number_of_neighbors(sample: Benchmark, tmp_path: Path) -> None:
    middle = "harrowick-deck-permits-1251-1812"
    for neighbours, n in ((0, 1), (1, 3), (9, 4)):
        toolbox = Toolbox(sample, "bm25", tmp_path, limits=ToolLimits(neighbours=neighbours))
        found = toolbox.session("govt").call("read", {"passage_id": f" {middle} "}).passages
        assert middle in [item.passage_id for item in found]
        assert len(found) == n


def test_a_passage_shows_its_title_unless_its_text_has_it_and_may_be_cut() -> None:
    titled, within = Passage("a", " Four words of text. ", "A title"), Passage("b", "A title: text.", "A title")
    result = ToolResult("whole", (titled, within), numbers=(3, 4))
    assert result.shortened(100) == "[3] id: a\nA title\nFour words of text.\n\n[4] id: b\nA title: text."
    assert result.shortened(14) == "[3] id: a\nA title\nFour w [...]\n\n[4] id: b\nA title: text."
    assert result.shortened(8) == "[3] id: a\nA title [...]\n\n[4] id: b\nA title: [...]"
    assert result.shortened(0) == "[3] id: a [...]\n\n[4] id: b [...]"
    assert ToolResult("Nothing was found.").shortened(3) == "Nothing was found."


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
def test_no_model_output_raises(toolbox: Toolbox, tool: str, arguments: Any) -> None:
    session = toolbox.session("govt")
    result = session.call(tool, arguments)
    assert result.text
    (step,) = session.end(Ending.ANSWERED).steps
    json.dumps([step.tool, dict(step.arguments)], allow_nan=False).encode()
    assert (step.problem is None) or not step.passages
