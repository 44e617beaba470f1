"""Reading results of the harness: its own output, generated here, complete and damaged."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.metrics import TURN_ERROR_NAMES
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.suites import suite_named
from tests._commands import run_command
from tests._evaluations import LIMIT, results_file
from tests._messages import raises
from tests.reports._saved import facts_of, save


@pytest.fixture
def folder(evaluations: Path, tmp_path: Path) -> Path:
    """A copy of one model's output that a test may damage."""
    return Path(shutil.copytree(evaluations / "oracle", tmp_path / "copy"))


def samples_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("samples_*.jsonl"))


def message_of(path: Path) -> str:
    with pytest.raises(BenchmarkFileError) as caught:
        read_evaluations([path])
    text = str(caught.value)
    step = text.partition("next step: ")[2]
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        assert "run the evaluation again, by `ragtasks eval` or by lm_eval with --output_path DIR --log_samples" in step
    return text


def rewrite(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_an_evaluation_contains_every_logged_sample(evaluations: Path) -> None:
    found = read_evaluations([evaluations])
    assert sorted(evaluation.model for evaluation in found) == ["ragtasks-oracle", "ragtasks-refuse"]
    for evaluation in found:
        assert evaluation.kind == ("mtrag (sample)", "none", "ngrams-2")
        assert Counter(row.setting for row in evaluation.rows) == dict.fromkeys(
            ("reference", "reference_rag", "full_rag"), 4 * LIMIT
        )
        assert {row.task.domain for row in evaluation.rows} == {"clapnq", "fiqa", "govt", "cloud"}
        given = {metric.name for metric in suite_named("mtrag").metrics if not metric.needs_judges}
        assert all(set(row.values) == given | TURN_ERROR_NAMES for row in evaluation.rows)


def by_model(evaluations: Path) -> dict[str, Evaluation]:
    return {evaluation.model: evaluation for evaluation in read_evaluations([evaluations])}


def test_values_are_the_logged_ones_and_nan_is_none(evaluations: Path) -> None:
    found = by_model(evaluations)
    assert all(row.values["rouge_l"] == 1 for row in found["ragtasks-oracle"].rows)
    assert all(row.values["idk_yes"] == 1 for row in found["ragtasks-refuse"].rows)
    for evaluation in found.values():
        # The harness logs unscored values as NaN.
        assert all(row.values["rb_alg"] is None for row in evaluation.rows)
        assert all(row.values["coverage"] == 0 for row in evaluation.rows)


@pytest.mark.parametrize("value", [0.5, 5.0, float("nan")])
def test_a_score_that_was_changed_in_the_samples_alone_is_refused(folder: Path, value: float) -> None:
    sample = samples_of(folder)[0]
    first, *others = sample.read_text(encoding="utf-8").splitlines()
    sample.write_text("\n".join([json.dumps({**json.loads(first), "rouge_l": value}), *others]), encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        read_evaluations([folder])
    text = str(caught.value)
    assert f"expected: samples with the same scores (rouge_l: {4 * LIMIT} that add up to {4 * LIMIT})" in text
    assert "found: rouge_l: " in text
    assert "score the answers again: `ragtasks score RESULTS" in text


def test_a_replaced_task_is_refused(folder: Path) -> None:
    sample = samples_of(folder)[0]
    lines = sample.read_text(encoding="utf-8").splitlines()
    task_id = json.loads(lines[0])["doc"]["task_id"]
    sample.write_text("\n".join(lines).replace(json.dumps(task_id), json.dumps("c<::>1")), encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="found: other tasks"):
        read_evaluations([folder])


def test_likelihood_tasks_in_the_results_are_ignored(folder: Path) -> None:
    """They have no answers. Their scores are in the harness's own table."""
    before, file = read_evaluations([folder]), results_file(folder)
    sample = next(file.parent.glob("samples_mtrag_full_rag_govt_*.jsonl"))
    other = sample.with_name(sample.name.replace("mtrag_full_rag_govt", "likelihood"))
    other.write_text('{"word_perplexity": [-3.5, 4]}\n', encoding="utf-8")

    def add(content: dict[str, Any]) -> None:
        config = content["configs"]["mtrag_full_rag_govt"]
        content["configs"]["likelihood"] = {**config, "task": "likelihood", "output_type": "loglikelihood"}

    rewrite(file, add)
    assert read_evaluations([folder]) == before


def test_a_results_file_may_be_named_instead_of_its_folder(folder: Path) -> None:
    assert read_evaluations([results_file(folder)]) == read_evaluations([folder])
    assert len(read_evaluations([folder, results_file(folder)])) == 1  # named twice, read once


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"model": "org/chat-1", "base_url": "http://localhost"}, "org/chat-1"),
        ({"pretrained": "org/base-2"}, "org/base-2"),
        ({}, "ragtasks-oracle"),
        (None, "ragtasks-oracle"),
        ("pretrained=x", "ragtasks-oracle"),
    ],
)
def test_a_model_is_called_by_its_own_name(folder: Path, arguments: object, name: str) -> None:
    rewrite(results_file(folder), lambda results: results["config"].update(model_args=arguments))
    (evaluation,) = read_evaluations([folder])
    assert evaluation.model == name


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_path_without_results_is_named(tmp_path: Path, path: str) -> None:
    assert str(tmp_path / path) in message_of(tmp_path / path)


def test_results_without_logged_samples_are_refused(folder: Path) -> None:
    for path in samples_of(folder):
        path.unlink()
    assert "expected: logged samples of a ragtasks task in the same folder" in message_of(folder)


def test_a_task_whose_samples_are_missing_is_named_with_its_lines(folder: Path) -> None:
    gone = [path for path in samples_of(folder) if "_govt_" in path.name]
    for path in gone:
        path.unlink()
    text = message_of(folder)
    assert (
        f"{results_file(folder)}\n  expected: the logged samples of all its ragtasks tasks in the same folder" in text
    )
    assert f"found: {', '.join(f'no {path.name} (lines: {LIMIT})' for path in gone)}\n" in text


@pytest.mark.parametrize("n_lines", [LIMIT - 1, LIMIT + 1])
def test_a_wrong_number_of_samples_is_reported(folder: Path, n_lines: int) -> None:
    path = samples_of(folder)[-1]
    rows = path.read_text(encoding="utf-8").splitlines()
    more = rows[0].replace(json.loads(rows[0])["doc"]["task_id"], "another<::>1")
    path.write_text("\n".join([*rows, more][:n_lines]), encoding="utf-8")
    reported = f"{path}\n  expected: {LIMIT} lines according to its results file\n  found: {n_lines}\n"
    assert reported in message_of(folder)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (("suite",), "suite: is missing"),
        (("setting_tasks",), "setting_tasks: is missing"),
        (("scoring", "scored_by"), "scoring.scored_by: is missing"),
        (("configuration", "run"), "configuration.run: is missing"),
    ],
)
def test_results_of_a_removed_format_are_one_error_with_the_file_and_the_next_step(
    tmp_path: Path, place: tuple[str, ...], found: str
) -> None:
    def remove(results: dict[str, Any]) -> None:
        *above, last = place
        inner = facts_of(results)
        for key in above:
            inner = inner[key]
        del inner[last]

    path = save(tmp_path / "results", change=remove)
    before = path.read_bytes()
    for command in (["report"], ["score", "--output", tmp_path / "again"]):
        done = run_command(*command, path.parent)
        assert done.status == 1
        assert f"{path}\n" in done.err
        assert found in done.err
        assert "next step: run the evaluation again" in done.err.lower()
    assert path.read_bytes() == before


def test_results_without_the_number_of_their_samples_are_refused(folder: Path) -> None:
    rewrite(results_file(folder), lambda results: results.pop("n-samples"))
    assert "expected: the number of logged samples of" in message_of(folder)


def test_results_are_read_in_the_order_given_and_each_file_once(evaluations: Path, tmp_path: Path) -> None:
    oracle, refuse = evaluations / "oracle", evaluations / "refuse"

    def read(*paths: Path) -> list[str]:
        return [evaluation.model.removeprefix("ragtasks-") for evaluation in read_evaluations(paths)]

    assert read(refuse, oracle) == ["refuse", "oracle"]
    assert read(refuse, evaluations) == ["refuse", "oracle"]
    link = tmp_path / "link"
    link.symlink_to(oracle)
    assert read(link, oracle, refuse / ".." / "oracle", results_file(oracle)) == ["oracle"]


def test_files_are_named_relative_to_the_given_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        save(tmp_path / "all" / name)
    monkeypatch.chdir(tmp_path)

    def files(*paths: str | Path) -> list[str]:
        return [file for item in read_evaluations([Path(path) for path in paths]) for file in item.files]

    names = ["two/results_2026-01-01.json", "one/results_2026-01-01.json"]
    assert files("all/two", "all/one") == files("all/two", tmp_path / "all" / "one") == names
    assert files("all") == names[::-1]
    assert files("all/two") == files("all/two/results_2026-01-01.json") == ["results_2026-01-01.json"]


def test_samples_of_another_time_are_ignored(folder: Path) -> None:
    for path in samples_of(folder):
        path.rename(path.with_name(path.name.replace("_20", "_19")))
    assert "logged samples" in message_of(folder)


def test_samples_of_foreign_tasks_are_left_out(folder: Path) -> None:
    (before,) = read_evaluations([folder])
    first = samples_of(folder)[0]
    task = first.name.removeprefix("samples_").rpartition("_")[0]
    foreign = first.with_name(first.name.replace(task, "gsm8k"))
    foreign.write_text('{"doc": {}}\n', encoding="utf-8")
    rewrite(results_file(folder), lambda results: results["configs"].update(gsm8k={"metadata": {"version": 3.0}}))
    assert read_evaluations([folder]) == [before]
    rewrite(results_file(folder), lambda results: results["configs"].update(gsm8k={"metadata": None}))
    assert read_evaluations([folder]) == [before]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b'{"configs": []}', b'{"configs": {"t": {"metadata": {"ragtasks": {"x": 1}}}}}']
)
def test_a_broken_results_file_is_named(folder: Path, content: bytes) -> None:
    results_file(folder).write_bytes(content)
    assert results_file(folder).name in message_of(folder)


@pytest.mark.parametrize("key", ["config", "configs"])
@pytest.mark.parametrize("value", [None, 1, ["x"]])
def test_results_with_another_value_for_an_object_are_named(folder: Path, key: str, value: object) -> None:
    rewrite(results_file(folder), lambda results: results.update({key: value}))
    assert f"{results_file(folder)}\n  expected: a results file of the harness" in message_of(folder)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '{"doc": {}, "metrics": []}', '{"doc": [], "metrics": []}', '{"doc": null}'],
)
def test_a_broken_sample_is_named_by_line(folder: Path, line: str) -> None:
    path = samples_of(folder)[0]
    rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([rows[0], line, *rows[2:], "corrupt {"]), encoding="utf-8")
    text = message_of(folder)
    assert path.name in text
    assert "line 2: expected" in text
    assert f"line {LIMIT + 1}: expected" in text  # both at once


def test_a_task_twice_in_a_setting_is_named_by_file_line_and_task(folder: Path) -> None:
    first, second, *_ = samples_of(folder)
    rows = first.read_text(encoding="utf-8").splitlines()
    task_id = json.loads(rows[0])["doc"]["task_id"]
    first.write_text("\n".join([*rows, rows[0]]), encoding="utf-8")
    text = message_of(folder)
    assert f"{first}: 1 error\n  line {LIMIT + 1} ({task_id}): expected each task once in a setting" in text
    assert f"found 'the task of line 1 of {first.name}'" in text
    # Harness tasks over the same questions are in files of their own.
    first.write_text("\n".join(rows), encoding="utf-8")
    second.write_text(rows[1], encoding="utf-8")
    text = message_of(folder)
    assert f"{second}: 1 error\n  line 1 (" in text
    assert f"found 'the task of line 2 of {first.name}'" in text


@pytest.mark.parametrize(
    ("scoring", "label"),
    [
        ({"judges": ""}, "ngrams-2"),
        ({"judges": "a, b", "judge_prompts": "ours"}, "ngrams-2; judges: a, b"),
        ({"judges": "a, b"}, "ngrams-2; judges: a, b"),
        ({"judges": "a, b", "judge_prompts": "official"}, "ngrams-2; judges: a, b (prompts: official)"),
    ],
)
def test_other_judges_or_other_prompts_are_another_kind(folder: Path, scoring: dict[str, str], label: str) -> None:
    def change(results: Any) -> None:
        for config in results["configs"].values():
            facts = config["metadata"]["ragtasks"]["scoring"]
            facts.pop("judge_prompts", None)
            facts.update(scoring)

    rewrite(results_file(folder), change)
    (evaluation,) = read_evaluations([folder])
    assert evaluation.kind == ("mtrag (sample)", "none", label)


def test_the_harness_options_of_requests_are_read(folder: Path) -> None:
    usual = {
        "version": 1.7,
        "system_instruction_sha": None,
        "has_chat_template": False,
        "generation_kwargs": {
            "until": ["</s>", "\nUser:"],
            "max_gen_toks": 1024,
            "do_sample": False,
            "temperature": 0.0,
        },
    }
    (evaluation,) = read_evaluations([folder])
    assert [own["harness"] for own in evaluation.provenance.values()] == [usual] * 12
    rewrite(results_file(folder), lambda results: results.update(chat_template=""))  # as of a chat endpoint
    (evaluation,) = read_evaluations([folder])
    assert all(own["harness"]["has_chat_template"] for own in evaluation.provenance.values())


def test_the_version_of_the_files_is_read(folder: Path) -> None:
    (before,) = read_evaluations([folder])
    assert before.revision

    def forget(results: Any) -> None:
        for config in results["configs"].values():
            del config["metadata"]["ragtasks"]["revision"]

    rewrite(results_file(folder), forget)
    (evaluation,) = read_evaluations([folder])
    assert evaluation.revision == ""


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("doc.answerability", None, "doc.answerability: expected 'ANSWERABLE'"),
        ("doc.answerability", 3, "doc.answerability: expected 'ANSWERABLE'"),
        ("doc.domain", None, "doc.domain: "),
        ("doc.turn", "1", "doc.turn: "),
        ("doc.question_types", [None], "doc.question_types.0: "),
        ("doc.passages", ["p1"], "doc.passages.0: "),
        ("doc.references", [1], "doc.references.0: "),
        ("doc.scoring", {"turn_error": "invented"}, "doc.scoring.turn_error: "),
        ("doc.scoring", {"unscored": {"rb_alg": 1}}, "doc.scoring.unscored.rb_alg: "),
        ("doc.scoring", {"verdicts": [{"rubric": "r", "judge": 1, "value": 1.0}]}, "doc.scoring.verdicts.0.judge: "),
        ("metrics", {"rb_alg": 1}, "metrics: "),
        ("rb_alg", 10**400, "OverflowError"),
        ("rb_alg", "high", "TypeError"),
    ],
)
def test_samples_of_other_types_are_refused_by_line(tmp_path: Path, path: str, value: object, found: str) -> None:
    def change(sample: dict[str, Any]) -> None:
        *above, last = path.split(".")
        for key in above:
            sample = sample[key]
        sample[last] = value

    save(tmp_path, change_sample=change)
    with pytest.raises(BenchmarkFileError, match="line 1") as error:
        read_evaluations([tmp_path])
    assert found in str(error.value)


def test_results_with_a_metric_that_is_not_installed_are_refused_with_a_next_step(folder: Path) -> None:
    file = results_file(folder)
    file.write_text(file.read_text().replace('"suite": "mtrag"', '"suite": "mtrag+predicted_all"'))
    content = file.read_bytes()
    with raises(BenchmarkFileError) as caught:
        read_evaluations([folder])
    assert str(file) in str(caught.value)
    assert "score the answers again: `ragtasks score RESULTS" in str(caught.value)
    assert file.read_bytes() == content


def test_an_unknown_turn_error_is_refused_with_a_next_step(tmp_path: Path) -> None:
    def note(sample: dict[str, Any]) -> None:
        sample["doc"]["scoring"]["turn_error"] = {"kind": "contradicted", "reason": "80"}

    save(tmp_path, change_sample=note)
    (path,) = samples_of(tmp_path)
    content = path.read_bytes()
    with raises(BenchmarkFileError):
        read_evaluations([tmp_path])
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["mtrag/reference", "../mtrag", "m" * 300, ""])
def test_a_task_name_that_cannot_be_a_file_name_is_refused(tmp_path: Path, name: str) -> None:
    def rename(results: dict[str, Any]) -> None:
        (config,) = results["configs"].values()
        results["configs"] = {name: config}

    save(tmp_path, change=rename)
    with pytest.raises(BenchmarkFileError, match="not a valid name of a task"):
        read_evaluations([tmp_path])


@pytest.mark.parametrize(
    ("origin", "found"),
    [
        ({"history": {"answers": "own", "user": {"model": "m"}}}, "a simulated user asked the questions"),
        ({"best_of": {"n": 4, "by": "m"}}, "a judge picked each answer as the best of several"),
    ],
)
def test_results_of_discontinued_evaluations_are_refused_and_not_changed(
    tmp_path: Path, origin: dict[str, Any], found: str
) -> None:
    def mark(results: dict[str, Any]) -> None:
        for config in results["configs"].values():
            config["metadata"]["ragtasks"].update(origin)

    file = save(tmp_path, change=mark)
    before = file.read_bytes()
    text = message_of(file)
    assert str(file) in text
    assert found in text
    assert file.read_bytes() == before


def test_one_broken_file_does_not_stop_a_folder_and_is_named(tmp_path: Path) -> None:
    save(tmp_path / "whole", "whole")
    broken = save(tmp_path / "broken", "broken")
    broken.write_text("{", encoding="utf-8")
    reported: list[str] = []
    assert [item.model for item in read_evaluations([tmp_path], left_out=reported.append)] == ["whole"]
    assert len(reported) == 1
    assert str(broken) in reported[0]
    assert "\n" not in reported[0]
    # A named file raises an error, and so does a folder without any readable file.
    for path in (broken, tmp_path / "broken"):
        with pytest.raises(BenchmarkFileError):
            read_evaluations([path], left_out=reported.append)
    assert len(reported) == 1


def test_the_answers_are_next_to_their_rows(evaluations: Path) -> None:
    found = by_model(evaluations)
    for evaluation in found.values():
        assert all(row.task.question for row in evaluation.rows)
    assert all(row.response.text == row.task.target for row in found["ragtasks-oracle"].rows)


def test_samples_without_questions_are_refused(folder: Path) -> None:
    (path, *_) = samples_of(folder)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        del row["doc"]["question"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with raises(BenchmarkFileError):
        read_evaluations([folder])
