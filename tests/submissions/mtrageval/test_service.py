"""Submissions built from runs and answers, checked before they are written, and the output of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, RagtasksError
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.records import Answerability, Role, Setting
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval import Submission, check, submit
from ragtasks.submissions.mtrageval._inputs import benchmark_inputs, document_ids_by_domain, read_inputs
from tests._messages import raises
from tests.submissions.mtrageval._files import lines_of, sample, store_run, write_answers
from tests.submissions.mtrageval._official import ranking, rejections

BENCHMARK = sample()
IDS = [given.task_id for given in benchmark_inputs(BENCHMARK).values()]
DOCUMENTS = {domain: sorted(known) for domain, known in document_ids_by_domain(BENCHMARK).items()}
SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}
SCORES = st.one_of(st.sampled_from([1.0, 1.0 + 1e-9, 1.0 + 1e-6]), st.floats(-1e6, 1e6))


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def whole_run(n: int = 3) -> dict[str, tuple[Ranked, ...]]:
    """Return a run with the same scores for every task."""
    return {
        task.task_id: in_rank_order(Ranked(d, 10.0 - i) for i, d in enumerate(DOCUMENTS[task.domain][:n]))
        for task in BENCHMARK.tasks
    }


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Runs with passages for every task: a few rankings, reused in turn."""
    shapes = draw(st.lists(st.lists(SCORES, min_size=1, max_size=14), min_size=1, max_size=6))
    start = draw(st.integers(0, 5))
    run = {}
    for number, task in enumerate(BENCHMARK.tasks):
        scores = shapes[number % len(shapes)]
        document_ids = DOCUMENTS[task.domain][start:]
        run[task.task_id] = in_rank_order(Ranked(d, score) for d, score in zip(document_ids, scores, strict=False))
    return run


@pytest.mark.slow
@settings(max_examples=25)
@given(run=runs(), limit=st.integers(1, 10))
def test_a_submission_of_any_run_passes_and_keeps_its_order(
    tmp_path_factory: pytest.TempPathFactory, run: Run, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    store_run(folder, "any", BENCHMARK, run)
    target = folder / "a.jsonl"
    submit(Submission(SubmissionTask.A, target, run="any", limit=limit), BENCHMARK, folder)
    assert check(target, SubmissionTask.A, BENCHMARK, None, documents=True).findings == ()
    assert rejections(target.read_bytes(), "A", IDS) == []
    for row in rows_in(target):
        expected = [passage.passage_id for passage in run[row["task_id"]]][:limit]
        written = [context["document_id"] for context in row["contexts"]]
        scores = np.array([context["score"] for context in row["contexts"]], dtype=np.float32)
        assert written == expected == ranking(row)
        assert len(set(written)) == len(written) <= 10
        assert np.all(np.diff(scores) < 0)


def test_scores_are_kept_unless_they_tie(tmp_path: Path) -> None:
    run = whole_run()
    tied = BENCHMARK.tasks[0].task_id
    run[tied] = in_rank_order(Ranked(passage.passage_id, 1.0 + 1e-9 * i) for i, passage in enumerate(run[tied]))
    store_run(tmp_path, "r", BENCHMARK, run)
    printed = submit(Submission(SubmissionTask.A, tmp_path / "a.jsonl", run="r"), BENCHMARK, tmp_path)
    scores = {
        row["task_id"]: [context["score"] for context in row["contexts"]] for row in rows_in(tmp_path / "a.jsonl")
    }
    assert scores.pop(tied) == [3.0, 2.0, 1.0]
    assert set(map(tuple, scores.values())) == {(10.0, 9.0, 8.0)}
    assert "1 tasks: scores tie as 32-bit numbers, replaced by scores from the rank" in printed
    assert printed[0] == "mtrag (sample): not benchmark scores, and not a submission"
    assert [line.split(":")[0] for line in printed if "(ranking score) |" in line] == ["nDCG@5"]


def test_a_row_contains_the_input_and_no_target_or_label(tmp_path: Path) -> None:
    write_answers(tmp_path / "out", BENCHMARK, Setting.FULL_RAG)
    submit(Submission(SubmissionTask.C, tmp_path / "c.jsonl", results=tmp_path / "out"), BENCHMARK, tmp_path)
    rows = rows_in(tmp_path / "c.jsonl")
    assert [row["task_id"] for row in rows] == IDS
    keys = {"task_id", "conversation_id", "task_type", "turn", "dataset", "Collection", "input", "contexts"}
    assert {frozenset(row) for row in rows} == {frozenset(keys | {"predictions"})}
    assert all(set(message) == {"speaker", "text"} for row in rows for message in row["input"])
    shown = BENCHMARK.read_contexts(Setting.FULL_RAG).passages
    for row, task in zip(rows, BENCHMARK.tasks, strict=True):
        assert row["predictions"] == [{"text": task.target}]
        assert [context["text"] for context in row["contexts"]] == [passage.text for passage in shown[task.task_id]]
    assert rejections((tmp_path / "c.jsonl").read_bytes(), "C", IDS) == []


@pytest.mark.parametrize(("name", "letter"), [("mtrag", "B"), ("mtrag_un", "B"), ("mtrag", "C"), ("mtrag", "A")])
def test_answers_become_a_submission_that_passes(name: str, letter: str, tmp_path: Path) -> None:
    benchmark, task = sample(name), SubmissionTask(letter)
    setting = Setting.REFERENCE if letter == "B" else Setting.FULL_RAG
    results = write_answers(tmp_path / "out", benchmark, setting)
    target = tmp_path / "file.jsonl"
    allowed = letter == "A"  # some queries of the sample have no results
    submit(Submission(task, target, results=results, allow_missing=allowed), benchmark, tmp_path)
    report = check(target, task, benchmark, None, documents=True)
    assert report.passes
    assert report.unchecked == ()
    assert (
        rejections(target.read_bytes(), letter, [given.task_id for given in benchmark_inputs(benchmark).values()]) == []
    )


def test_only_one_benchmark_of_an_evaluation_is_submitted(tmp_path: Path) -> None:
    path = write_answers(tmp_path / "out", BENCHMARK, Setting.REFERENCE)
    first = json.loads(path.read_text(encoding="utf-8"))
    write_answers(tmp_path / "out", sample("mtrag_un"), Setting.REFERENCE)
    second = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({key: first[key] | second[key] for key in first}), encoding="utf-8")
    for benchmark in (BENCHMARK, sample("mtrag_un")):
        target = tmp_path / f"{benchmark.name}.jsonl"
        submit(Submission(SubmissionTask.B, target, results=tmp_path / "out"), benchmark, tmp_path)
        assert check(target, SubmissionTask.B, benchmark, None, documents=True).passes


def test_the_ranking_score_is_printed_if_the_results_have_all_three(tmp_path: Path) -> None:
    all_scores = {"rl_f": 1.0, "rb_llm": 0.5, "rb_alg": 0.25, "rouge_l": 0.1}
    write_answers(tmp_path / "all", BENCHMARK, Setting.REFERENCE, scores=all_scores)
    printed = submit(Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=tmp_path / "all"), BENCHMARK, tmp_path)
    assert "ranking score, harmonic mean of the three (paper profile): 0.4286" in printed
    results = write_answers(tmp_path / "part", BENCHMARK, Setting.REFERENCE, scores=all_scores)
    samples = next(results.parent.glob("samples_*"))
    content = samples.read_text(encoding="utf-8")
    samples.write_text(content.replace('"rl_f": 1.0', '"rl_f": NaN', len(IDS) - 23), encoding="utf-8")
    printed = submit(Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=results), BENCHMARK, tmp_path)
    end = f"harmonic mean of the three (paper profile): 0.4286 (rl_f 23/{len(IDS)})"
    assert [line.endswith(end) for line in printed if line.startswith("ranking score")] == [True]
    write_answers(tmp_path / "two", BENCHMARK, Setting.REFERENCE, scores={"rl_f": 1.0, "rb_alg": float("nan")})
    printed = submit(Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=tmp_path / "two"), BENCHMARK, tmp_path)
    assert any("no mean of rb_llm, rb_alg" in line for line in printed)


@pytest.mark.parametrize(("letter", "setting"), [("B", Setting.REFERENCE), ("C", Setting.FULL_RAG)])
def test_omitted_conversational_tasks_are_submitted_empty_and_named(
    letter: str, setting: Setting, tmp_path: Path
) -> None:
    left_out = [t.task_id for t in BENCHMARK.tasks if t.answerability is Answerability.CONVERSATIONAL]
    write_answers(tmp_path / "out", BENCHMARK, setting, conversational=False)
    target = tmp_path / "file.jsonl"
    printed = submit(Submission(SubmissionTask(letter), target, results=tmp_path / "out"), BENCHMARK, tmp_path)
    assert [row["task_id"] for row in rows_in(target) if row["predictions"] == [{"text": ""}]] == left_out
    assert rejections(target.read_bytes(), letter, IDS) == []
    (line,) = [line for line in printed if line.startswith(f"{len(left_out)} tasks: conversational")]
    assert f"--for-submission {letter} --tasks mtrag_{setting.value} --data sample" in line


def test_other_missing_tasks_are_named_with_the_command_that_answers_them(tmp_path: Path) -> None:
    key = next(task.task_id for task in BENCHMARK.tasks if task.answerability is Answerability.ANSWERABLE)
    write_answers(tmp_path / "out", BENCHMARK, Setting.FULL_RAG, answers={key: ""}, conversational=False)
    with pytest.raises(ConfigurationError) as caught:
        submit(Submission(SubmissionTask.C, tmp_path / "c.jsonl", results=tmp_path / "out"), BENCHMARK, tmp_path)
    assert key in str(caught.value)
    command = "ragtasks run --for-submission C --tasks mtrag_full_rag --data sample --model MODEL --output DIR"
    assert command in str(caught.value)
    assert not (tmp_path / "c.jsonl").exists()
    with pytest.raises(ConfigurationError, match="--for-submission B --tasks mtrag_reference --data sample"):
        submit(Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=tmp_path / "out"), BENCHMARK, tmp_path)


def test_an_empty_answer_counts_as_missing_and_keeps_its_contexts(tmp_path: Path) -> None:
    key = next(task.task_id for task in BENCHMARK.tasks if len(task.references) > 1)
    write_answers(tmp_path / "out", BENCHMARK, Setting.REFERENCE, answers={key: " "})
    request = Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=tmp_path / "out")
    with pytest.raises(ConfigurationError, match="none for 1: "):
        submit(request, BENCHMARK, tmp_path)
    allowing = Submission(SubmissionTask.B, tmp_path / "b.jsonl", results=tmp_path / "out", allow_missing=True)
    submit(allowing, BENCHMARK, tmp_path)
    (row,) = [row for row in rows_in(tmp_path / "b.jsonl") if row["task_id"] == key]
    assert len(row["contexts"]) > 1


def test_an_empty_ranking_requires_allow_missing_too(tmp_path: Path) -> None:
    run = whole_run()
    del run[IDS[3]]
    store_run(tmp_path, "r", BENCHMARK, run)
    with pytest.raises(ConfigurationError, match=f"a ranking for every task(.|\n)*{IDS[3]}"):
        submit(Submission(SubmissionTask.A, tmp_path / "a.jsonl", run="r"), BENCHMARK, tmp_path)
    printed = submit(
        Submission(SubmissionTask.A, tmp_path / "a.jsonl", run="r", allow_missing=True), BENCHMARK, tmp_path
    )
    assert rows_in(tmp_path / "a.jsonl")[3]["contexts"] == []
    assert "1 tasks: submitted empty" in printed


def test_an_invalid_submission_keeps_the_old_file(tmp_path: Path) -> None:
    run = whole_run()
    run[IDS[3]] = (Ranked("of-no-corpus", 2.0),)
    store_run(tmp_path, "r", BENCHMARK, run)
    target = tmp_path / "a.jsonl"
    target.write_text("old", encoding="utf-8")
    with raises(BenchmarkFileError):
        submit(Submission(SubmissionTask.A, target, run="r"), BENCHMARK, tmp_path)
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.jsonl"]
    printed = submit(Submission(SubmissionTask.A, target, run="r", documents=False), BENCHMARK, tmp_path)
    assert "  not checked: whether documents exist: skipped" in printed


def test_an_input_file_determines_tasks_and_spelling(tmp_path: Path) -> None:
    store_run(tmp_path, "r", BENCHMARK, whole_run())
    given = [
        {
            "task_id": task.task_id.replace("<::>", "::"),
            "Collection": f"ragtasks-sample-{task.domain}",
            "input": [{"speaker": SPEAKERS[message.role], "text": message.text} for message in task.messages],
        }
        for task in BENCHMARK.tasks[:4]
    ]
    path = tmp_path / "input.jsonl"
    path.write_bytes(b"".join(lines_of(given)))
    target = tmp_path / "a.jsonl"
    printed = submit(Submission(SubmissionTask.A, target, run="r", input_file=path), BENCHMARK, tmp_path)
    ids = [row["task_id"] for row in given]
    assert [row["task_id"] for row in rows_in(target)] == ids
    assert rejections(target.read_bytes(), "A", ids) == []
    assert any("of 4 tasks are judged" in line for line in printed)
    against_benchmark = check(target, SubmissionTask.A, BENCHMARK, None, documents=False)
    assert {finding.rule for finding in against_benchmark.findings} == {"missing_task", "task_spelling"}


def test_a_broken_input_is_named_with_all_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    path.write_text('{"task_id": "x"}\n[]\n{"task_id": "c::1", "input": [], "contexts": [{}]}\n', encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        read_inputs(path)
    text = str(caught.value)
    assert text.startswith(f"input of MTRAGEval: {path}: 5 errors")
    assert all(f"line {number}" in text for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("letter", "options", "message"),
    [
        ("A", {}, "requires either --run"),
        ("A", {"run": "r", "results": Path("out")}, "requires either --run"),
        ("B", {"run": "r"}, "task B requires answers"),
        ("A", {"run": "r", "limit": 11}, "--limit-contexts 11: expected 1 to 10"),
        ("A", {"run": "s"}, "no run 's' in "),
    ],
)
def test_incompatible_options_are_refused(letter: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    store_run(tmp_path, "r", BENCHMARK, whole_run())
    with pytest.raises(RagtasksError, match=message):
        submit(Submission(SubmissionTask(letter), tmp_path / "f.jsonl", **options), BENCHMARK, tmp_path)
    assert not (tmp_path / "f.jsonl").exists()


def test_a_benchmark_without_published_ranking_is_refused(tmp_path: Path) -> None:
    request = Submission(SubmissionTask.A, tmp_path / "f.jsonl", run="official")
    with raises(ConfigurationError):
        submit(request, sample("mtrag_un"), tmp_path)


def test_a_run_or_results_of_other_data_are_refused(tmp_path: Path) -> None:
    store_run(tmp_path, "r", BENCHMARK, whole_run())
    with pytest.raises(CacheError, match="made for other data"):
        submit(Submission(SubmissionTask.A, tmp_path / "f.jsonl", run="r"), sample("mtrag_un"), tmp_path)
    results = write_answers(tmp_path / "out", BENCHMARK, Setting.REFERENCE)
    with raises(ConfigurationError):
        submit(Submission(SubmissionTask.B, tmp_path / "f.jsonl", results=results), sample("mtrag_un"), tmp_path)
    with raises(ConfigurationError):
        submit(Submission(SubmissionTask.C, tmp_path / "f.jsonl", results=results), BENCHMARK, tmp_path)


def test_a_corrupt_run_and_several_results_are_refused(tmp_path: Path) -> None:
    store_run(tmp_path, "r", BENCHMARK, whole_run())
    (tmp_path / "runs/r/all.trec").write_text("c<::>1 Q0 d 1 1.0 t\n", encoding="utf-8")
    with raises(CacheError):
        submit(Submission(SubmissionTask.A, tmp_path / "f.jsonl", run="r"), BENCHMARK, tmp_path)
    for name in ("one", "two"):
        write_answers(tmp_path / "out" / name, BENCHMARK, Setting.REFERENCE)
    with raises(BenchmarkFileError):
        submit(Submission(SubmissionTask.B, tmp_path / "f.jsonl", results=tmp_path / "out"), BENCHMARK, tmp_path)


# The commands.


def test_submit_and_check_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    store_run(tmp_path, "r", BENCHMARK, whole_run())
    target = tmp_path / "a.jsonl"
    done = CliRunner().invoke(app, ["submit", "--task", "a", "--run", "r", "--data", "sample", "--output", str(target)])
    assert done.exit_code == 0, done.output
    assert f"wrote {target}" in done.output
    good = CliRunner().invoke(app, ["check", str(target), "--task", "A", "--data", "sample"])
    assert (good.exit_code, good.output) == (0, "a.jsonl: task A, 112 lines: 0 problems, 0 warnings, 0 notes\n")
    rows = rows_in(target)
    rows[7]["contexts"][0]["score"] = True
    target.write_bytes(b"".join(lines_of(rows[:-1])))
    bad = CliRunner().invoke(app, ["check", str(target), "--task", "A", "--data", "sample", "--json"])
    assert bad.exit_code == 1
    findings = {(finding["line"], finding["rule"]) for finding in json.loads(bad.output)["findings"]}
    assert findings == {(8, "score_boolean"), (0, "missing_task")}


def test_check_lists_unchecked_parts(tmp_path: Path) -> None:
    target = tmp_path / "a.jsonl"
    row = {"task_id": "c::1", "Collection": "govt", "contexts": [{"document_id": "d", "score": 1}]}
    target.write_bytes(lines_of([row])[0])
    done = CliRunner().invoke(app, ["check", str(target), "--task", "A"])
    assert done.exit_code == 0
    assert "not checked: task ids" in done.output
    assert "not checked: whether documents exist" in done.output
