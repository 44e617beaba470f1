"""Saved answers scored again: the harness's logged samples, and the official predictions format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, ImplausibleError, RagtasksError
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.records import Setting
from ragtasks.results import read_evaluations
from ragtasks.scoring import Folders, rescore, take_failures
from tests._evaluations import LIMIT, results_file
from tests._messages import raises
from tests.clients._server import closed_port
from tests.judges._demo import DemoServer

Rescore = Callable[..., list[str]]


@pytest.fixture
def saved(evaluations: Path) -> Path:
    """The harness's output for two models, in `oracle` and `refuse`; scored without judges."""
    return evaluations


@pytest.fixture
def again(folders: Folders, tmp_path: Path) -> Rescore:
    """Score saved answers at some paths into `out`, with some metadata."""

    def run(*paths: Path, output: Path | None = None, **options: Any) -> list[str]:
        named = {key: options.pop(key) for key in ("benchmark", "setting") if key in options}
        folder, may_replace = output or tmp_path / "out", options.pop("may_replace", lambda _: True)
        return rescore(paths, options, folder, folders, may_replace=may_replace, local_judge=JudgeModel, **named)

    return run


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def scores_of(folder: Path) -> list[dict[str, Any]]:
    """Return the scores without usage: a reply may have been paid for now or earlier."""
    return [{name: str(row[name]) for name in row["metrics"]} for row in rows_in(folder)]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("samples_*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_scoring_again_with_the_same_configuration_gives_the_same_scores(
    saved: Path, again: Rescore, tmp_path: Path
) -> None:
    before = content_of(saved)
    lines = again(saved)
    assert content_of(saved) == before
    assert len(lines) == 2
    old, new = read_evaluations([saved]), read_evaluations([tmp_path / "out"])
    assert [(one.model, one.kind, one.rows) for one in new] == [(one.model, one.kind, one.rows) for one in old]
    for model in ("oracle", "refuse"):
        first = json.loads(results_file(saved / model).read_text())
        second = json.loads(results_file(tmp_path / "out" / saved.name / model).read_text())
        assert (
            second["configs"]["mtrag_full_rag_fiqa"]["metadata"] == first["configs"]["mtrag_full_rag_fiqa"]["metadata"]
        )
        assert second["config"] == first["config"]
        for name, scores in second["results"].items():
            before_of = first["results"][name]
            shared = [key for key in scores if key.endswith(",sample") and "_stderr" not in key and key in before_of]
            assert [before_of[key] for key in shared] == pytest.approx([scores[key] for key in shared], nan_ok=True)
        assert second["results"].keys() == first["results"].keys()
        assert second["groups"].keys() == first["groups"].keys()


@pytest.mark.slow
def test_judges_add_scores_and_verdicts_and_a_second_run_sends_no_request(
    saved: Path, again: Rescore, tmp_path: Path
) -> None:
    with DemoServer() as server:
        judges = [server.judge("one"), server.judge("two")]
        again(saved, judges=judges, encoder="none")
        n_asked = len(server.asked)
        assert n_asked > 0
        first = scores_of(tmp_path / "out")
        again(saved, judges=judges, encoder="none")
        assert len(server.asked) == n_asked
    assert scores_of(tmp_path / "out") == first
    rows = rows_in(tmp_path / "out")
    assert len(rows) == len(rows_in(saved))
    for row in rows:
        assert {"rb_llm", "rl_f", "judge_coverage"} <= set(row["metrics"]) <= row.keys()
        assert row["judge_coverage"] == 1
        assert {verdict["judge"] for verdict in row["doc"]["scoring"]["verdicts"]} == {"one", "two"}
    for model in ("oracle", "refuse"):
        results = json.loads(results_file(tmp_path / "out" / saved.name / model).read_text())
        facts = results["configs"]["mtrag_reference_fiqa"]["metadata"]["ragtasks"]
        assert facts["scoring"]["judges"] == "one, two"
        assert [judge["model"] for judge in facts["configuration"]["judges"]] == ["one", "two"]
        group = results["groups"]["mtrag_reference"]
        chosen = [
            row["rb_llm"]
            for row in rows_in(tmp_path / "out" / saved.name / model)
            if row["doc"]["setting"] == "reference"
        ]
        assert group["rb_llm,sample"] == pytest.approx(sum(chosen) / len(chosen))
        assert group["sample_len"] == len(chosen) == 4 * LIMIT
    assert {one.model for one in read_evaluations([tmp_path / "out"])} == {"ragtasks-oracle", "ragtasks-refuse"}


@pytest.mark.slow
def test_judges_named_in_results_are_shown_but_not_used_until_named_by_the_user(
    saved: Path, again: Rescore, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    theirs = tmp_path / "theirs"
    shutil.copytree(saved / "oracle", theirs)
    with DemoServer() as server:
        named = {
            "judges": [server.judge("theirs")],
            "encoder": str(tmp_path / "model"),
            "retriever": "run:/etc/passwd",
            "system_prompt": "/etc/passwd",
            "run": "../../x",
            "min_judge_coverage": 0.0,
        }
        file = results_file(theirs)
        results = json.loads(file.read_text())
        for config in results["configs"].values():
            config["metadata"]["ragtasks"]["configuration"].update(named)
        file.write_text(json.dumps(results))
        again(theirs)
        assert server.asked == []
        (line,) = [record.getMessage() for record in caplog.records if "name them with --metadata" in record.message]
        assert all(json.dumps(named[key]) in line for key in ("judges", "encoder", "retriever", "min_judge_coverage"))
        again(theirs, judges=named["judges"], encoder="none")
        assert server.asked
    facts = json.loads(results_file(tmp_path / "out").read_text())["configs"]["mtrag_full_rag_fiqa"]["metadata"]
    configuration = facts["ragtasks"]["configuration"]
    # The configuration of the answers.
    assert (configuration["run"], configuration["system_prompt"]) == ("../../x", "/etc/passwd")


def test_everything_is_saved_before_dead_judges_end_the_scoring(saved: Path, again: Rescore, tmp_path: Path) -> None:
    dead = {"model": "dead", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "attempts": 2, "backoff_seconds": 0.01}
    with pytest.raises(RagtasksError, match=r"everything is saved in .*out") as caught:
        again(saved / "oracle", judges=[dead])
    assert "no server answers" in str(caught.value)
    rows = rows_in(tmp_path / "out")
    assert len(rows) == len(rows_in(saved / "oracle"))
    assert all(row["judge_coverage"] == 0 and row["rouge_l"] == 1 for row in rows)
    assert all(str(row["rb_llm"]) == "nan" and row["doc"]["scoring"]["unscored"]["rb_llm"] for row in rows)
    assert take_failures() == []


@pytest.mark.parametrize("target", ["", "inside", "oracle/deep"])
def test_an_output_inside_the_input_is_refused(saved: Path, again: Rescore, target: str) -> None:
    before = content_of(saved)
    with pytest.raises(ConfigurationError, match="is inside the input"):
        again(saved, output=saved / target)
    assert content_of(saved) == before


def test_existing_results_are_replaced_with_permission_only(saved: Path, again: Rescore, tmp_path: Path) -> None:
    asked: list[Sequence[Path]] = []
    again(saved, encoder="none", may_replace=lambda _: pytest.fail("nothing is there"))
    before = content_of(tmp_path / "out")
    with raises(ConfigurationError):
        again(saved, encoder="none", may_replace=lambda files: bool(asked.append(files)))
    assert content_of(tmp_path / "out") == before
    assert {str(file.relative_to(tmp_path / "out")) for file in asked[0]} == {
        name for name in before if "results_" in name
    }
    again(saved, encoder="none")


def test_an_unwritable_cache_is_reported_before_any_request(saved: Path, again: Rescore, tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(CacheError, match="reply cache"):
        again(saved, encoder="none", judges=[{"model": "m", "base_url": f"http://127.0.0.1:{closed_port()}/v1"}])
    assert not (tmp_path / "out").exists()


def test_an_output_that_would_replace_the_input_is_refused(saved: Path, again: Rescore) -> None:
    file = results_file(saved / "oracle")
    with pytest.raises(ConfigurationError, match="is inside the input"):
        again(file, output=file.parent.parent)


def test_two_copies_of_one_evaluation_do_not_overwrite_each_other(saved: Path, again: Rescore, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "oracle"
    shutil.copytree(saved / "oracle", copy)
    with pytest.raises(ConfigurationError, match="would both be written to"):
        again(saved / "oracle", copy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encodr": "none"}, "did you mean 'encoder'"),
        ({"max_words": 90}, "generated with other values of max_words"),
        ({"run": "bm25"}, "generated with other values of run"),
        ({"idk": "judges"}, "needs judges"),
        ({"prompts": "official", "judges": ["openai/any"]}, "official"),
        ({"judges": [{"lm_eval": "hff"}]}, "unknown model type 'hff'"),
    ],
)
def test_invalid_options_are_refused(
    saved: Path, again: Rescore, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(RagtasksError, match=message):
        again(saved, **options)
    assert not (tmp_path / "out").exists()


def test_other_data_than_that_of_the_answers_is_refused(saved: Path, again: Rescore, mtrag_root: Path) -> None:
    with pytest.raises(BenchmarkFileError, match=r"expected: the benchmark of the answers, mtrag \(sample\)"):
        again(saved, data=str(mtrag_root))


def test_broken_samples_are_reported_together_by_line(saved: Path, again: Rescore, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(saved / "oracle", copy)
    (file,) = copy.rglob("samples_mtrag_full_rag_fiqa_*.jsonl")
    first, second, third = (json.loads(line) for line in file.read_text().splitlines())
    del first["filtered_resps"]
    second["doc"]["answerability"] = "MAYBE"
    third["filtered_resps"] = [None]
    file.write_text("".join(json.dumps(row) + "\n" for row in (first, second, third)) + "{corrupt")
    with pytest.raises(BenchmarkFileError, match="4 errors") as caught:
        again(copy)
    assert [f"line {number}:" in str(caught.value) for number in (1, 2, 3, 4)] == [True] * 4
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda file: file.unlink(), r"found: no samples_mtrag_full_rag_fiqa_\S+ \(lines: 3\)"),
        (lambda file: file.write_text(file.read_text().splitlines()[0] + "\n"), "expected: 3 lines(.|\n)*found: 1"),
    ],
)
def test_answers_are_scored_all_or_not_at_all(
    saved: Path, again: Rescore, tmp_path: Path, edit: Callable[[Path], object], message: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(saved / "oracle", copy)
    (file,) = copy.rglob("samples_mtrag_full_rag_fiqa_*.jsonl")
    edit(file)
    with pytest.raises(BenchmarkFileError, match=message):
        again(copy)


@pytest.mark.parametrize("made", ["nothing", "empty", "no samples", "corrupt"])
def test_folders_without_answers_are_reported_with_the_next_step(again: Rescore, tmp_path: Path, made: str) -> None:
    folder = tmp_path / "given"
    if made != "nothing":
        folder.mkdir()
    if made in ("no samples", "corrupt"):
        text = '{"configs": {}}' if made == "no samples" else '{"configs": '
        (folder / "results_2026-01-01T00-00-00.0.json").write_text(text)
    with pytest.raises(BenchmarkFileError, match=r"next step: (run the evaluation again|check the path)"):
        again(folder)


def predictions(count: int = 12, setting: Setting = Setting.FULL_RAG) -> list[dict[str, Any]]:
    """Return rows in the official format for the sample's first tasks: its targets as answers."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    contexts = benchmark.read_contexts(setting).passages
    return [
        {
            "task_id": task.task_id.replace("<::>", "::"),
            "predictions": [{"text": f"<think>Hm.</think>{task.target}"}],
            "contexts": [{"document_id": p.passage_id, "text": p.text, "score": 1.0} for p in contexts[task.task_id]],
        }
        for task in benchmark.tasks[:count]
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


SAMPLE = {"data": "sample", "encoder": "none", "benchmark": "mtrag", "setting": "full_rag"}


def test_implausible_answers_are_an_error_in_every_file_format(again: Rescore, tmp_path: Path) -> None:
    rows = predictions()
    silent = [{**row, "predictions": [{"text": ""}]} for row in rows]
    for name, given in (("a", silent), ("b", rows), ("c", silent)):
        written(tmp_path / "in" / f"{name}.jsonl", given)
    paths = [tmp_path / "in" / f"{name}.jsonl" for name in "abc"]
    for chosen in (paths[:2], paths[1:]):
        with pytest.raises(ImplausibleError, match=f"everything is saved in {tmp_path / 'out'}"):
            again(*chosen, **SAMPLE)
        assert len(read_evaluations([tmp_path / "out"])) == 2
        shutil.rmtree(tmp_path / "out")
    assert len(again(paths[1], **SAMPLE)) == 1


def test_predictions_are_scored_against_the_benchmarks_targets(again: Rescore, tmp_path: Path) -> None:
    file = written(tmp_path / "in" / "my_model.jsonl", predictions())
    with DemoServer() as server:
        again(file, judges=[server.judge("one")], **SAMPLE)
    (evaluation,) = read_evaluations([tmp_path / "out"])
    assert evaluation.model == "my_model"
    rows = rows_in(tmp_path / "out")
    assert {row["rouge_l"] for row in rows} == {1.0}
    assert all(row["judge_coverage"] == 1 and row["filter"] == "sample" for row in rows)
    assert all(row["resps"][0][0].startswith("<think>") and "Hm." not in row["filtered_resps"][0] for row in rows)
    given = {row["task_id"].replace("::", "<::>"): row["contexts"] for row in predictions()}
    for row in rows:
        shown = [(passage["passage_id"], passage["text"]) for passage in row["doc"]["passages"]]
        assert shown == [(item["document_id"], item["text"]) for item in given[row["doc"]["task_id"]]]
    n_counted = sum(row["doc"]["answerability"] != "CONVERSATIONAL" for row in rows)
    assert n_counted == len(rows) > 0


def test_the_setting_supplies_passages_missing_in_the_file(again: Rescore, tmp_path: Path) -> None:
    rows = predictions(4)
    written(tmp_path / "with.jsonl", rows)
    written(tmp_path / "without.jsonl", [{key: row[key] for key in ("task_id", "predictions")} for row in rows])
    again(tmp_path / "without.jsonl", **SAMPLE)
    again(tmp_path / "with.jsonl", **SAMPLE)
    shown = [[row["doc"]["passages"] for row in rows_in(tmp_path / "out" / name)] for name in ("with", "without")]
    texts = [[[passage["text"] for passage in passages] for passages in one] for one in shown]
    assert texts[0] == texts[1]
    assert texts[0]


def test_problems_of_predictions_are_reported_together_by_line(again: Rescore, tmp_path: Path) -> None:
    rows = predictions(6)
    rows[0]["task_id"] = "nobody::1"
    rows[1]["predictions"] = []
    rows[2]["predictions"] = [{"text": None}]
    rows[3]["contexts"] = [{"document_id": "x"}]
    rows[5]["task_id"] = rows[4]["task_id"]
    file = written(tmp_path / "bad.jsonl", rows)
    file.write_text(file.read_text() + "[1]\n")
    with pytest.raises(BenchmarkFileError, match="6 errors") as caught:
        again(file, **SAMPLE)
    text = str(caught.value)
    assert [f"line {number}" in text for number in (1, 2, 3, 4, 6, 7)] == [True] * 6
    assert "the task of line 5" in text
    assert not (tmp_path / "out").exists()


def test_predictions_need_benchmark_and_setting(again: Rescore, tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", predictions(2))
    for left_out in ("benchmark", "setting"):
        with pytest.raises(ConfigurationError, match="add --benchmark and --setting"):
            again(file, **{key: value for key, value in SAMPLE.items() if key != left_out})
    with pytest.raises(ConfigurationError, match="unknown setting 'rag'; known: reference"):
        again(file, **{**SAMPLE, "setting": "rag"})


def test_a_folder_may_contain_both_formats(saved: Path, again: Rescore, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    shutil.copytree(saved / "oracle", folder / "oracle")
    written(folder / "predicted" / "model_a.jsonl", predictions(3))
    written(folder / "predicted" / "model_b.jsonl", predictions(5))
    assert len(again(folder, **SAMPLE)) == 3
    models = {evaluation.model for evaluation in read_evaluations([tmp_path / "out"])}
    assert models == {"ragtasks-oracle", "model_a", "model_b"}


def test_the_official_sample_file_is_readable(again: Rescore, tmp_path: Path, mtrag_root: Path) -> None:
    file = mtrag_root / "scripts" / "evaluation" / "sample_data" / "responses-10.jsonl"
    options = {"benchmark": "mtrag", "setting": "reference", "data": str(mtrag_root), "encoder": "none"}
    assert again(file, **options)[0].endswith("(10 answers)")
    rows = rows_in(tmp_path / "out")
    assert len({row["doc"]["task_id"] for row in rows}) == 10
    assert {row["filter"] for row in rows} == {"none"}
