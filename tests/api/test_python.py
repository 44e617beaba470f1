"""The Python API: what it promises, its examples, and that it says what the command line says."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
import runpy
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragtasks
from ragtasks.api import bounds_of
from ragtasks.benchmarks import source_of
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, MissingExtraError
from ragtasks.records import Answerability
from ragtasks.scoring import Folders, record_failure, rescore
from tests._messages import raises
from tests.judges._demo import DemoServer

ROOT = Path(__file__).resolve().parents[2]
SIGNATURES = {
    "compare": "(a, b, *, metric)",
    "compare_until_decided": "(results, judges, *, metric, setting, margin, seed, output, data)",
    "evaluate_run": "(run, qrels, *, measures, name)",
    "ground": "(answer, passages, history, citations)",
    "load_benchmark": "(name, data)",
    "read_results": "(path)",
    "retrieve": "(benchmark, retriever, queries, *, name, depth, corpora)",
    "score_rows": "(rows, *, judges, encoder, name, keys, **options)",
    "score": "(benchmark, answers, *, setting, run, judges, encoder, name, **options)",
}
MEMBERS = {
    "Decision": {"better", "decided", "verdict"},
    "Differences": {"comparisons", "doubts", "of_runs", "pairs"},
    "GroundedSentence": {
        *("best", "cited", "flipped", "from_conversation", "kinds", "not_found", "numbers_not_found", "share"),
        *("share_with_conversation", "source", "span", "support", "supports", "text"),
    },
    "Grounding": {
        *("citation_kinds", "citation_precision", "citation_recall", "copied", "sentences", "share"),
        *("share_with_conversation", "uncited"),
    },
    "LoadedBenchmark": {"data", "is_sample", "label", "name", "passages", "qrels", "source", "tasks"},
    "Results": {
        *("by_task", "evaluations", "left_out", "means", "missing", "only", "plausibility", "rows", "to_pandas"),
        "to_polars",
    },
    "RetrievedRun": {"name", "rankings", "stored"},
    "RunEvaluation": {
        *("context", "conversation_of", "judgements", "means", "name", "omitted", "unjudged", "values"),
    },
}
FIRST, SECOND = "sample-clapnq-01<::>1", "sample-clapnq-01<::>2"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def sample() -> ragtasks.LoadedBenchmark:
    return ragtasks.load_benchmark("mtrag", data="sample")


def targets(sample: ragtasks.LoadedBenchmark) -> dict[str, str]:
    return {task.task_id: task.target for task in sample.tasks}


def score(sample: ragtasks.LoadedBenchmark, answers: Any, **options: Any) -> ragtasks.Results:
    return ragtasks.score(sample, answers, **{"setting": "reference", "encoder": "none", **options})


def shape(function: Any) -> str:
    """Return a signature without annotations and defaults."""
    empty = inspect.Parameter.empty
    parameters = inspect.signature(function).parameters.values()
    bare = [item.replace(annotation=empty, default=empty) for item in parameters]
    return str(inspect.Signature(bare))


def test_what_is_promised() -> None:
    classes = {"RagtasksError", "ScoringError", *MEMBERS}
    assert set(ragtasks.__all__) == {"__version__", *classes, *SIGNATURES}
    assert {name: shape(getattr(ragtasks, name)) for name in SIGNATURES} == SIGNATURES
    for name, members in MEMBERS.items():
        own = getattr(ragtasks, name)
        assert {item for item in {*dir(own), *own.__dataclass_fields__} if not item.startswith("_")} == members
        assert own.__dataclass_params__.frozen
    assert set(ragtasks.__all__) <= set(dir(ragtasks))
    with pytest.raises(AttributeError, match="lod_benchmark"):
        _ = ragtasks.lod_benchmark  # type: ignore[attr-defined]


def test_the_examples_of_the_documentation_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    out = capsys.readouterr().out
    assert out.count("# mtrag (sample)") == 4
    assert "107 of 108 tasks have no answer and no score" in out
    for name in SIGNATURES:
        assert f"`{name}(" in text


def test_the_example_of_grounding_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "grounding.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "docs/grounding.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_ten_lines_score_twenty_answers(capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "examples" / "score_my_system.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    code = [line for node in tree.body[1:] for line in range(node.lineno, (node.end_lineno or 0) + 1)]
    assert len(code) <= 10
    names = runpy.run_path(str(file))  # the sample's encoder, as a user has it: the import of torch takes its seconds
    assert len(names["answers"]) == 20
    out = capsys.readouterr().out
    assert "88 of 108 tasks have no answer and no score" in out
    assert re.search(r"\| full_rag \| my system \| 108 \| 0\.\d{3} \(20/108\)", out)


def test_a_benchmark_has_tasks_passages_and_judgements(sample: ragtasks.LoadedBenchmark) -> None:
    assert (sample.name, sample.label, sample.is_sample, len(sample.tasks)) == ("mtrag", "mtrag (sample)", True, 112)
    assert repr(sample) == "<LoadedBenchmark mtrag (sample): 112 tasks>"
    assert "| clapnq |         20 |" in str(sample)
    assert "UNDERSPECIFIED" not in str(sample), "a label that no task has is no column"
    assert [len(sample.passages(name)) for name in ("reference", "reference_rag", "full_rag")] == [112, 83, 112]
    assert len(sample.qrels) == 92
    assert all(set(judged.values()) <= {0, 1} for judged in sample.qrels.values())
    with pytest.raises(ConfigurationError, match="did you mean 'full_rag'"):
        sample.passages("fullrag")
    with pytest.raises(ConfigurationError, match="did you mean 'mtrag'"):
        ragtasks.load_benchmark("mtrga")


def test_where_no_data_are_named_they_are_read_from_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ragtasks.load_benchmark("mtrag_un", data="sample").source
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))
    shutil.copytree(source.root, tmp_path / "data" / source_of("mtrag_un").folder)
    found = ragtasks.load_benchmark("mtrag_un")
    assert (found.tasks, found.source.root.parent) == (source.tasks, (tmp_path / "data").resolve())
    with pytest.raises(BenchmarkFileError, match=f"{tmp_path / 'data'}/.*/corpora/"):
        ragtasks.retrieve(found, queries="last_turn")


def test_what_a_system_searched_for_is_scored(sample: ragtasks.LoadedBenchmark) -> None:
    relevant = [{"id": name, "text": "x"} for name, grade in sample.qrels[FIRST].items() if grade]
    said = [{"query": "nothing", "passages": []}, {"query": "towns", "passages": relevant}]
    results = score(
        sample,
        [{"id": FIRST, "answer": "x", "searches": said}, {"id": SECOND, "answer": "x", "searches": None}],
        setting="agentic",
        max_implausible=1,
    )
    searched, silent = results.rows[:2]
    assert relevant
    assert [searched[name] for name in ("searches", "recall_seen", "empty_searches")] == [2, 1, 0.5]
    assert [silent[name] for name in ("searches", "recall_seen")] == [None, None]
    assert [row.recall_after for row in results.evaluations[0].rows[:2]] == [(0, 0, 1), ()], "search by search"


def test_scores_are_those_of_the_command_line(sample: ragtasks.LoadedBenchmark, tmp_path: Path) -> None:
    """Predictions scored by `ragtasks score`, read back, and the same answers scored here."""
    passages = sample.passages("full_rag")
    records = [
        {
            "task_id": task.task_id,
            "text": f"I believe {task.target[: 8 * task.turn]}",
            "contexts": [{"document_id": item.passage_id, "text": item.text} for item in passages[task.task_id]],
        }
        for task in sample.tasks
    ]
    lines = [{**record, "predictions": [{"text": record["text"]}]} for record in records]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = {"benchmark": "mtrag", "setting": "full_rag"}
    given = {"data": "sample", "encoder": "none", "max_implausible": 1}
    rescore([tmp_path / "mine.jsonl"], given, tmp_path / "out", Folders(tmp_path, tmp_path / "store"), **options)
    saved = ragtasks.read_results(tmp_path / "out")
    here = ragtasks.score(sample, records, encoder="none", name="here")
    there = {row["task_id"]: {**row, "model": "here"} for row in saved.rows}
    assert {row["task_id"]: row for row in here.rows} == there
    assert len(here.left_out) == 4
    assert "answers to 4 conversational tasks" in str(here)
    differences = ragtasks.compare(tmp_path / "out", here, metric="rouge_l")
    assert [pair.difference.value for pair in differences.pairs] == [0]
    assert [str(line).split("|")[4:] for line in str(here).splitlines() if "here" in line] == [
        line.split("|")[4:] for line in str(saved).splitlines() if "full_rag" in line
    ]


def test_tasks_without_an_answer_are_counted_and_have_no_score(sample: ragtasks.LoadedBenchmark) -> None:
    results = score(sample, {FIRST: "I do not know.", SECOND.replace("<::>", "::"): "It is blue."})
    assert len(results.rows) == 108
    assert len(results.missing) == 106
    assert results.by_task[FIRST]["ans_acc"] == 0
    assert results.by_task[results.missing[0]]["ans_acc"] is None
    assert results.by_task[results.missing[0]]["coverage"] == 0
    reasons = {row["task_id"]: row["unscored"] for row in results.rows}
    assert "ans_acc: no answer: none was given" in reasons[results.missing[0]]
    assert "106 of 108 tasks have no answer" in str(results)


def test_answers_that_cannot_be_answers_are_named(sample: ragtasks.LoadedBenchmark) -> None:
    results = score(sample, {FIRST: "<think>Let me", SECOND: "Error code: 429"})
    (checks,) = results.plausibility.values()
    assert [(item.name, item.count, item.n) for item in checks] == [("emptied", 1, 2), ("error", 1, 2)]
    assert "1 of 2 answers (50%) are an error message" in str(results)


def test_all_errors_of_answers_are_listed_at_once(sample: ragtasks.LoadedBenchmark) -> None:
    with pytest.raises(ConfigurationError) as caught:
        score(sample, [{"task_id": FIRST, "text": 3}, {"task_id": SECOND, "text": "x", "passages": 5}, "text"])
    for part in (
        f"answer 1 ({FIRST}): expected `answer`: a text, found 3",
        f"answer 2 ({SECOND}): expected `contexts`: a list, found 'int'",
        "answer 3: expected an object with `id` and `answer`, found 'str'",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"setting": None}, "1 of 1 answers"),
        ({"setting": "full"}, "did you mean 'full_rag'"),
        ({"enkoder": "none"}, "did you mean 'encoder'"),
        ({"setting": "reference_rag"}, "expected: tasks of the setting reference_rag"),
        ({"run": "bm25.rewrite", "setting": "full_rag"}, "no run 'bm25.rewrite'"),
    ],
)
def test_options_that_cannot_be_used(sample: ragtasks.LoadedBenchmark, options: dict[str, Any], said: str) -> None:
    outside = next(task.task_id for task in sample.tasks if len(task.references) > 2)
    with pytest.raises(ragtasks.RagtasksError, match=said):
        score(sample, {outside: "x"}, **options)


def test_judges_score_too(sample: ragtasks.LoadedBenchmark) -> None:
    with DemoServer() as server:
        results = score(sample, {FIRST: "It is blue."}, judges=[server.judge("one")])
    assert results.by_task[FIRST]["rb_llm"] is not None


def test_rows_become_frames(sample: ragtasks.LoadedBenchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    results = score(sample, targets(sample))
    frame = results.to_pandas()
    assert frame["ans_acc"].mean() == pytest.approx(0.981, abs=1e-3)
    assert (frame["rb_alg"].dtype, frame["rb_alg"].isna().all()) == (float, True)
    for library, convert in (("pandas", results.to_pandas), ("polars", results.to_polars)):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, library, None)
            with raises(MissingExtraError):
                convert()


def test_rows_become_a_frame_of_polars(sample: ragtasks.LoadedBenchmark) -> None:
    pytest.importorskip("polars")
    frame = score(sample, {FIRST: "x"}).to_polars()
    assert frame.height == 108
    assert frame["ans_acc"].drop_nulls().to_list() == [1.0]
    assert frame["rb_alg"].null_count() == 108


def test_two_systems_of_one_name_are_told_apart(sample: ragtasks.LoadedBenchmark) -> None:
    refusal = {task.task_id: "I do not know." for task in sample.tasks}
    found = ragtasks.compare(score(sample, refusal), score(sample, targets(sample)), metric="ans_acc")
    (pair,) = found.pairs
    assert (pair.first.name, pair.second.name) == ("answers (first)", "answers (second)")
    assert pair.difference.value > 0.5
    assert pair.p < 0.01
    assert "| answers (first) | answers (second) |" in str(found)
    one, other = score(sample, refusal, name="a"), score(sample, refusal, name="b")
    (pair,) = ragtasks.compare(one, other, metric="ans_acc").pairs
    assert (pair.first.name, pair.second.name) == ("a", "b")
    with pytest.raises(ConfigurationError, match="did you mean 'rouge_l'"):
        ragtasks.compare(score(sample, refusal), score(sample, refusal), metric="rouge_i")
    one, other = score(sample, refusal), score(sample, refusal, setting="full_rag")
    both = ragtasks.Results((*one.evaluations, *other.evaluations))
    with raises(ConfigurationError):
        _ = both.by_task


def test_a_run_is_made_found_evaluated_and_answered_with(sample: ragtasks.LoadedBenchmark, tmp_path: Path) -> None:
    run = ragtasks.retrieve(sample)
    assert ragtasks.retrieve(sample).stored == run.stored
    assert run.name == "bm25.rewrite.sample"
    assert str(run).splitlines()[1].split()[:3] == ["bm25.rewrite.sample", "mtrag", "(sample)"]
    assert len(run.rankings) >= 92
    whole = ragtasks.evaluate_run(run, sample)
    from ragtasks.metrics import RETRIEVAL_METRICS
    from retrieval_cache.service import judge_runs

    (stored,) = judge_runs(sample.source, tmp_path / "store", [run.name], RETRIEVAL_METRICS)
    assert whole.values == {result.query_id: result.values for result in stored.results}
    assert whole.conversation_of[SECOND] == FIRST.partition("<::>")[0]
    assert ragtasks.evaluate_run(run, sample, name="mine").name == "mine"
    for same in (run.name, run.stored.folder, run.rankings):
        assert ragtasks.evaluate_run(same, sample).values == whole.values
    results = score(sample, {FIRST: "x"}, setting="full_rag", run=run.name)
    assert results.rows[0]["model"] == "answers (run bm25.rewrite.sample)"
    assert results.rows[0]["n_passages"] == 5
    assert len(sample.passages("full_rag", run.name)) == 112


def test_measures_by_name_and_by_notation(sample: ragtasks.LoadedBenchmark, tmp_path: Path) -> None:
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2}}
    run = {"q1": {"b": 2.0, "a": 1.0}, "q9": {"a": 1.0}}
    found = ragtasks.evaluate_run(run, qrels, measures=["mrr", "R@1", "nDCG@20", "P(rel=2)@1"])
    assert found.values["q1"] == pytest.approx({"RR": 0.5, "R@1": 0, "nDCG@20": 0.63093, "P(rel=2)@1": 0}, abs=1e-5)
    assert (found.means["RR"], found.omitted, found.unjudged) == (0.25, ("q2",), ("q9",))
    assert "of which the run omits 1 (they count 0)" in str(found)
    assert "1 queries without a judgement" in str(found)
    assert found.conversation_of == {"q1": "q1", "q2": "q2"}, "a query of no conversation is its own"
    assert (bounds_of("NumRet"), bounds_of("R@1")) == ((0, math.inf), (0, 1)), "a count has no largest value"
    assert repr(found) == "<RunEvaluation of run: 2 judged queries>"
    (tmp_path / "run.trec").write_text("q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq9 Q0 a 1 1.0 x\n")
    (tmp_path / "trec.qrels").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t0\nq2\tc\t2\n")
    for name in ("trec.qrels", "beir.tsv"):
        again = ragtasks.evaluate_run(tmp_path / "run.trec", tmp_path / name, measures=list(found.means))
        assert (again.values, again.judgements) == (found.values, found.judgements)
    other = ragtasks.evaluate_run(run, {"q1": {"a": 1}, "q2": {"c": 2}}, measures=["mrr"])
    with raises(ConfigurationError):
        ragtasks.compare(found, other)
    with pytest.raises(ConfigurationError, match="unknown measure 'R@1'"):
        ragtasks.compare(found, other, metric="R@1")
    with pytest.raises(ConfigurationError, match="expected two runs or two results"):
        ragtasks.compare(found, score(sample, {FIRST: "x"}))


def test_runs_that_cannot_be_evaluated(sample: ragtasks.LoadedBenchmark, tmp_path: Path) -> None:
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}}
    for given, judgements, measures, error, message in (
        (run, qrels, ["nope@3"], ConfigurationError, "measure: "),
        (run, sample, None, CacheError, re.escape(f"judged queries, such as '{FIRST}'")),
        (run, {}, None, ConfigurationError, "no judgements"),
        (tmp_path / "nothing.trec", qrels, None, CacheError, "no run at"),
        ("nothing", qrels, None, CacheError, "no run 'nothing'"),
        (run, tmp_path / "qrels", None, BenchmarkFileError, "qrels"),
    ):
        with pytest.raises(error, match=message):
            ragtasks.evaluate_run(given, judgements, **({"measures": measures} if measures else {}))


def test_answers_to_conversational_tasks_count_when_asked(sample: ragtasks.LoadedBenchmark) -> None:
    chat = [task.task_id for task in sample.tasks if task.answerability is Answerability.CONVERSATIONAL]
    results = score(sample, dict.fromkeys(chat, "Hello!"), conversational=True)
    assert (len(results.rows), len(results.missing), results.left_out) == (112, 108, ())


def test_a_score_of_all_responses_together_is_no_score_of_one() -> None:
    """The mean over responses would be another score under its name."""
    other = ragtasks.load_benchmark("multidoc2dial", data="sample")
    results = score(other, targets(other))
    assert {"sentence_bleu", "rouge_l"} <= results.rows[0].keys()
    assert "sacrebleu" not in results.rows[0]
    assert "sacrebleu" not in str(results)


ROWS = [
    {
        "id": "a",
        "question": "How long?",
        "answer": "Three weeks.",
        "contexts": ["Three weeks."],
        "reference": "21 days",
    },
    {"id": "b", "user_input": "And then?", "response": "I do not know."},
]


def test_rows_of_ones_own_are_scored_without_a_benchmark() -> None:
    results = ragtasks.score_rows(ROWS, encoder="none", name="mine", max_words=5)
    assert [(row["task_id"], row["model"], row["benchmark"]) for row in results.rows] == [
        ("a", "mine", "rows"),
        ("b", "mine", "rows"),
    ]
    assert not {"setting", "answerability", "domain", "coverage"} & results.rows[0].keys()
    assert not {"full_rag", "coverage"} & set(str(results).replace("|", " ").split())
    assert "mine: 2 rows." in str(results)
    assert "full_rag" not in repr(results.to_pandas())
    assert [row["n_passages"] for row in results.rows] == [1, 0]
    assert (results.missing, results.left_out) == ((), ())
    assert results.by_task["a"]["rouge_l"] is not None
    assert results.by_task["b"]["rouge_l"] is None
    assert [row["idk"] for row in results.rows] == ["no", "yes"]
    (evaluation,) = results.evaluations
    (provenance,) = evaluation.provenance.values()
    assert (provenance["benchmark"], provenance["suite"]) == ("rows", "rows")
    assert (provenance["configuration"]["encoder"], provenance["configuration"]["max_words"]) == ("none", 5)
    assert ragtasks.score_rows(ROWS, encoder="none").rows[0]["model"] == "rows"


def test_keys_of_rows_are_named_in_python_too() -> None:
    renamed = [{{"answer": "said"}.get(key, key): value for key, value in row.items()} for row in ROWS[:1]]
    expected = ragtasks.score_rows(ROWS[:1], encoder="none").by_task
    for keys in ({"answer": "said"}, "answer=said"):
        assert ragtasks.score_rows(renamed, encoder="none", keys=keys).by_task == expected


def test_means_have_intervals_and_are_of_one_system(sample: ragtasks.LoadedBenchmark) -> None:
    first, second = (score(sample, targets(sample), name=name) for name in ("first", "second"))
    mean = first.means["ans_acc"]
    assert mean.low is not None
    assert mean.value is not None
    assert mean.low < mean.value < 1
    assert mean.n == 108
    assert mean.value == round(sum(row["ans_acc"] for row in first.rows) / 108, 6)
    assert f"{mean.value:.3f} [{mean.low:.3f}, " in repr(first.means)
    assert "rb_alg" not in first.means, "no response has it"
    both = ragtasks.Results((*first.evaluations, *second.evaluations))
    with pytest.raises(ragtasks.RagtasksError, match=r"results\.only\(model=\.\.\., setting=\.\.\.\)\.means"):
        _ = both.means
    assert both.only(model="second", setting="reference").means == second.means
    with pytest.raises(ragtasks.RagtasksError, match="no responses of third"):
        both.only("third")


def test_scores_of_rows_have_six_decimals() -> None:
    row = {"question": "How long?", "answer": "One, two or three.", "contexts": ["One or four."], "reference": "Two."}
    results = ragtasks.score_rows([row], encoder="minilm")
    values = [value for value in results.by_task["row-1"].values() if value is not None]
    assert values == [round(value, 6) for value in values]
    assert max(results.means[name].value or 0.0 for name in ("bert_recall", "bert_precision", "k_precision")) <= 1


def test_a_notebook_shows_tables_of_html_without_the_markup_of_others(sample: ragtasks.LoadedBenchmark) -> None:
    hostile = "<script>alert(1)</script>"
    results = score(sample, {FIRST: "It is so."}, name=hostile)
    for shown in (results, sample, ragtasks.compare(results, score(sample, targets(sample), name="b"))):
        text = shown._repr_html_()
        assert text.startswith("<h3>")
        assert "<table><thead><tr><th>" in text
        assert "<script" not in text
    assert "&lt;script&gt;" in results._repr_html_()
    assert "missing: 107 of 108 tasks have no answer" in results._repr_html_()


def test_rows_of_a_data_frame_are_those_of_its_records() -> None:
    import pandas
    import polars

    expected = ragtasks.score_rows(ROWS, encoder="none").by_task
    for frame in (pandas.DataFrame(ROWS), polars.DataFrame(ROWS)):
        assert ragtasks.score_rows(frame, encoder="none").by_task == expected


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"a": {}}, "rows: expected records or a data frame, found dict"),
        ("rows.jsonl", "rows: expected records or a data frame, found str"),
        ([], "found: none"),
        (
            [{"question": "q"}],
            "found: row 1 (row-1): expected `answer`: a text, which may be empty, found 'no `answer`'",
        ),
        ([{"q": "q", "a": "a"}], 'score_rows(rows, keys="question=q,answer=a")`; keys found: q, a'),
        ([*ROWS, {"id": "c", "answer": 3}, 5], "row 3 (c): expected `answer`: a text, found 3; row 4 ()"),
    ],
)
def test_rows_that_cannot_be_read_are_one_error(rows: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ragtasks.score_rows(rows, encoder="none")
    assert said in str(caught.value)


def test_of_many_errors_twenty_are_listed_and_the_rest_counted() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ragtasks.score_rows([{"answer": "a"}] * 23, encoder="none")
    text = str(caught.value)
    assert ("row 20 " in text, "row 21 " in text, "and 3 more" in text) == (True, False, True)


def test_what_an_earlier_evaluation_left_is_no_failure_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    record_failure("of another evaluation")
    ragtasks.score_rows(ROWS, encoder="none")
    from ragtasks.scoring import ResponseScorer

    scored = ResponseScorer.score

    def failing(self: ResponseScorer, responses: Any) -> Any:
        record_failure("one")
        record_failure("two")
        return scored(self, responses)

    monkeypatch.setattr(ResponseScorer, "score", failing)
    with raises(ragtasks.ScoringError) as caught:
        ragtasks.score_rows(ROWS, encoder="none")
    assert caught.value.results.by_task["a"]["rouge_l"] is not None


def test_a_setting_may_be_left_out_where_every_answer_brings_its_passages(sample: ragtasks.LoadedBenchmark) -> None:
    own = {"answer": "x", "contexts": ["A passage."]}
    results = score(sample, {FIRST: own}, setting=None)
    (row,) = (row for row in results.rows if row["task_id"] == FIRST)
    assert (row["setting"], row["n_passages"]) == ("full_rag", 1)
    with raises(ConfigurationError):
        score(sample, {FIRST: own, SECOND: "x"}, setting=None)
    with pytest.raises(ConfigurationError, match="0 of 0 answers"):
        score(sample, {}, setting=None)


def test_a_file_of_answers_read_as_records_scores_as_the_mapping_does(sample: ragtasks.LoadedBenchmark) -> None:
    expected = score(sample, {FIRST: "It is blue."}, max_words=3).by_task
    for answers in ({FIRST: {"text": "It is blue."}}, [{"id": FIRST, "answer": "It is blue."}]):
        assert score(sample, answers, max_words=3).by_task == expected


def test_results_say_whose_they_are_and_what_their_rows_rest_on(sample: ragtasks.LoadedBenchmark) -> None:
    results = score(sample, {FIRST: "<think>hm</think>It is blue."}, name="mine")
    assert repr(results) == "<Results of mine: 108 responses>"
    row = next(row for row in results.rows if row["task_id"] == FIRST)
    task = next(task for task in sample.tasks if task.task_id == FIRST)
    assert {key: row[key] for key in ("conversation_id", "turn", "domain", "answerability", "question_types")} == {
        "conversation_id": task.conversation_id,
        "turn": 1,
        "domain": task.domain,
        "answerability": task.answerability.value,
        "question_types": list(task.question_types),
    }
    assert (row["multi_turn"], row["n_references"]) == (task.multi_turn, len(task.references))
    assert row["unscored"].startswith("rb_alg: encoder: none; rb_alg_raw: encoder: none")
    own = score(sample, {FIRST: {"answer": "x", "contexts": ["A passage."]}}, setting=None)
    configured = [next(iter(one.evaluations[0].provenance.values()))["configuration"] for one in (results, own)]
    assert [(one["data"], one["encoder"], one["run"]) for one in configured] == [
        ("sample", "none", "official"),
        ("sample", "none", "file"),
    ]


def test_a_comparison_says_why_to_distrust_it(sample: ragtasks.LoadedBenchmark) -> None:
    silent = score(sample, dict.fromkeys(targets(sample), ""), name="silent", max_implausible=1)
    found = ragtasks.compare(silent, score(sample, targets(sample), name="right"))
    assert any("silent" in line and "empty" in line for line in found.doubts), found.doubts
    assert all(line in str(found) for line in found.doubts)


def test_runs_compare_by_the_measures_that_both_have(sample: ragtasks.LoadedBenchmark) -> None:
    """Over conversations: the queries of a conversation are its tasks."""
    ids = list(sample.qrels)
    best = {query_id: {name: 1.0 for name, grade in sample.qrels[query_id].items() if grade} for query_id in ids}
    half = {query_id: found for place, (query_id, found) in enumerate(best.items()) if place % 2}
    one = ragtasks.evaluate_run(half, sample, measures=["recall_5", "NumRet"], name="half")
    other = ragtasks.evaluate_run(best, sample, measures=["recall_5", "mrr"], name="whole")
    assert repr(one) == f"<RunEvaluation of half: {len(ids)} judged queries>"
    assert one.conversation_of == {query_id: query_id.partition("<::>")[0] for query_id in ids}
    found = ragtasks.compare(one, other)
    (pair,) = found.pairs
    assert (pair.first.metric, pair.first.name, pair.second.name) == ("R@5", "half", "whole")
    assert pair.difference.value == pytest.approx(1 - one.means["R@5"])
    assert pair.difference.n_clusters == len({name.partition("<::>")[0] for name in ids})
    for part in ("queries", "run", "| half ", "| whole "):
        assert part in str(found), str(found)
    assert repr(found) == f"<Differences: R@5 {pair.difference.value:+.3f}>"
    (named,) = ragtasks.compare(one, replace(other, name="half"), metric="recall_5").pairs
    assert (named.first.name, named.second.name) == ("half (first)", "half (second)")


def test_a_printed_run_says_what_was_judged_and_what_was_not() -> None:
    found = ragtasks.evaluate_run({"q1": {"a": 1}, "x": {"a": 1}}, {"q1": {"a": 1}}, measures=["mrr"], name="mine")
    text = str(found)
    assert "# Retrieval on judgements given" in text
    for part in ("mine", f"judgements: {found.judgements}", "1 queries without a judgement", "| RR"):
        assert part in text, text
    assert "ignored" not in str(ragtasks.evaluate_run({"q1": {"a": 1}}, {"q1": {"a": 1}}, measures=["mrr"]))
    assert found.conversation_of == {"q1": "q1"}


def test_judgements_have_a_hash_of_their_content() -> None:
    run = {"q": {"a": 1.0}}

    def key(qrels: Any) -> str:
        return ragtasks.evaluate_run(run, qrels, measures=["mrr"]).judgements

    first = key({"q": {"a": 1, "b": 0}})
    assert re.fullmatch(r"[0-9a-f]{12}", first)
    assert key({"q": {"a": 1, "b": 0}}) == first
    assert len({first, key({"q": {"a": 2, "b": 0}}), key({"q": {"a": 1}}), key({"p": {"a": 1}, "q": {"b": 0}})}) == 4


def test_results_are_read_from_one_path_or_several(sample: ragtasks.LoadedBenchmark, tmp_path: Path) -> None:
    answers = "".join(json.dumps({"id": name, "answer": "x"}) + "\n" for name in (FIRST, SECOND))
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(answers)
        given = {"data": "sample", "encoder": "none", "max_implausible": 1}
        where: dict[str, Any] = {"benchmark": "mtrag", "setting": "reference"}
        rescore([tmp_path / f"{name}.jsonl"], given, tmp_path / name, Folders(tmp_path, tmp_path / "store"), **where)
    n = len(ragtasks.read_results(tmp_path / "one").rows)
    assert n >= 2
    several: tuple[Any, ...] = ([tmp_path / "one", str(tmp_path / "two")], (tmp_path / "one", tmp_path / "two"))
    for paths in several:
        found = ragtasks.read_results(paths)
        assert len(found.rows) == 2 * n
        assert len(found.evaluations) == 2
    assert len(ragtasks.read_results(str(tmp_path / "one")).rows) == n
