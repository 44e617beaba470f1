"""Questions split into searches by a model: each is searched, and the rankings are fused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.benchmarks import MOST_SEARCHES, SAMPLE, benchmark_folder, open_benchmark, parse_searches
from ragtasks.cli import app
from ragtasks.clients import OpenAIClient
from ragtasks.errors import ConfigurationError
from ragtasks.prompts import shipped_template
from ragtasks.records import Passage
from retrieval_cache.queries import needs_model, rewrite_queries
from retrieval_cache.retrievers.fusion import reciprocal_rank_fusion
from retrieval_cache.service import Rewriter, Workspace, checked_form, retrieve
from retrieval_cache.spec import parse
from retrieval_cache.stage import read_run
from tests._messages import raises
from tests.clients._server import Action, chat_server, completion


def searches(*texts: str) -> Action:
    return completion(json.dumps({"searches": texts}))


def split(text: str, _: int) -> Action:
    """Return one search for a question with `Who`, three for any other; only the question of a prompt counts."""
    question = text.rpartition("[user] ")[2].partition("\n")[0]
    return searches(question) if "Who" in question else searches("ferry to the island", question, "harbour opening")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return Workspace("multihop_rag", "sample", tmp_path / "data", tmp_path / "store")


def test_the_rankings_of_all_searches_are_fused(workspace: Workspace, tmp_path: Path) -> None:
    benchmark = workspace.open()
    with chat_server(split) as server:
        rewriter = Rewriter(f"m,base_url={server.base_url}")
        made = retrieve(workspace, "bm25", "decompose", depth=10, rewriter=rewriter)
        n_asked = len(server.asked)
        again = retrieve(workspace, "bm25", "decompose", depth=5, rewriter=rewriter)
        assert len(server.asked) == n_asked == len(benchmark.tasks)  # first turns are split too
    run = read_run(made)
    assert {name: ranked[:5] for name, ranked in run.items()} == read_run(again)
    task = next(task for task in benchmark.tasks if "Who" not in task.question)
    retriever = parse("bm25")
    retriever.index(_corpus(workspace), tmp_path / "index")
    lists = [
        retriever.search({task.task_id: text}, 100)
        for text in ("ferry to the island", task.question, "harbour opening")
    ]
    expected = reciprocal_rank_fusion(lists, depth=100)[task.task_id][:10]
    assert [passage.passage_id for passage in run[task.task_id]] == [passage.passage_id for passage in expected]
    assert [passage.score for passage in run[task.task_id]] == pytest.approx([passage.score for passage in expected])
    spec = made.manifest.spec["queries"]
    assert (spec["form"], spec["client"]["model"], len(spec["of"])) == ("decompose", "m", 3)
    assert spec["prompt_sha256"] == shipped_template("rewrite/decompose").sha256


def _corpus(workspace: Workspace) -> list[Passage]:
    from ragtasks.benchmarks import retrieval_side
    from retrieval_cache.corpora.passages import read_corpus

    benchmark = workspace.open()
    (domain,) = retrieval_side("multihop_rag").domains_of(benchmark.tasks)
    return list(read_corpus(str(retrieval_side("multihop_rag").corpus_file(benchmark.root, domain))))


def test_an_unsplit_question_is_searched_as_its_last_turn(workspace: Workspace) -> None:
    with chat_server(lambda text, _: searches(text.rpartition("[user] ")[2].partition("\n")[0])) as server:
        made = retrieve(workspace, "bm25", "decompose", depth=10, rewriter=Rewriter(f"m,base_url={server.base_url}"))
    assert read_run(made) == read_run(retrieve(workspace, "bm25", "last_turn", depth=10))


def test_decompose_is_fused_with_other_forms(workspace: Workspace) -> None:
    with chat_server(split) as server:
        made = retrieve(
            workspace, "bm25", "last_turn/decompose", depth=10, rewriter=Rewriter(f"m,base_url={server.base_url}")
        )
        listed = CliRunner().invoke(app, ["results", "list"]).output
    assert [part["form"] for part in made.manifest.spec["queries"]["of"]] == ["last_turn", "decompose"]
    assert "last_turn/decompose (m)" in listed


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("no JSON", "not one JSON object"),
        ('{"searches": []}', "no list of searches"),
        ('{"searches": [""]}', "a search without text"),
        ('{"search": ["a"]}', "unexpected or missing keys"),
        (json.dumps({"searches": [str(n) for n in range(MOST_SEARCHES + 1)]}), f"more than {MOST_SEARCHES} searches"),
    ],
)
def test_an_invalid_reply_leaves_the_question_unsplit(reply: str, reason: str) -> None:
    tasks = open_benchmark("multihop_rag", benchmark_folder("multihop_rag", SAMPLE, Path())).tasks[:2]
    with chat_server(lambda *_: completion(reply)) as server:
        queries = rewrite_queries(tasks, OpenAIClient({"model": "m", "base_url": server.base_url}), form="decompose")
    assert dict(queries.texts) == {task.task_id: task.question for task in tasks}
    counts = queries.counts()
    assert (counts["asked"], counts["fallbacks"]) == (2, {f"invalid reply: {reason}": 2})
    assert counts["spending"]["rewriter m"][0]["n"] == 2


def test_repeated_searches_and_code_fences_are_removed() -> None:
    assert parse_searches('```json\n{"searches": ["a  b", "c", "a b"]}\n```') == ("a b", "c")


def test_the_prompt_contains_a_conversation_only_for_later_turns() -> None:
    template = shipped_template("rewrite/decompose")
    alone = template.render(history=[], question="Q?", most=6)
    later = template.render(history=[{"role": "user", "content": "Hello there"}], question="Q?", most=6)
    assert "Conversation" not in alone
    assert "conversation" not in alone
    assert later.index("[user] Hello there") < later.index("[user] Q?")


def test_decompose_requires_a_model_and_is_refused_in_live_conversations(workspace: Workspace) -> None:
    with raises(ConfigurationError):
        retrieve(workspace, "bm25", "decompose", depth=10)
    with pytest.raises(ConfigurationError, match="one query per turn"):
        checked_form("decompose", has_rewriter=True)
    assert needs_model("last_turn/decompose")
    assert not needs_model("llm_rewrite:models/decompose")
