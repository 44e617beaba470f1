"""A folder of results: listed, filtered and skipped files, and robustness of the listing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.reports.history import Entry, History, read_file, read_history, select_entries
from ragtasks.reports.history_output import render_entries, render_list, render_skipped
from ragtasks.reports.leaderboard import write_leaderboard
from ragtasks.results import DECISIVE, UNKNOWN
from ragtasks.scoring import Folders, rescore
from ragtasks.tables import Value
from tests._evaluations import LIMIT
from tests._messages import raises
from tests.reports._saved import facts_of, save


def command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["results", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_an_entry_has_means_of_scores_and_reasons_for_missing_scores(tmp_path: Path) -> None:
    scores = {"a<::>1": 0.25, "a<::>2": None, "b<::>1": 0.75, "b<::>2": None}
    (entry,) = read_file(save(tmp_path, values=lambda task_id: {"rb_alg": scores[task_id], "idk_yes": 1.0}))
    assert dict(entry.means) == {"rb_alg": Value(0.5, 2, 4), "idk_yes": Value(1.0, 4, 4)}
    assert entry.unscored == {"rb_alg": {"why not": 2}, "idk_yes": {}}
    assert [metric.name for metric in entry.metrics] == ["rb_alg", "idk_yes"]
    assert [metric.name for metric in entry.main_metrics] == ["rb_alg"]
    assert (entry.model, entry.benchmark, entry.setting, entry.n) == ("org/model", "mtrag", "reference", 4)
    assert entry.time == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert not entry.is_sample


def test_a_list_shows_the_share_of_empty_responses_if_any_are_empty(tmp_path: Path) -> None:
    for day, empty in ((1, 0.0), (2, 1.0)):
        save(tmp_path, day=day, values=lambda _, empty=empty: {"rb_alg": 0.5, "empty": empty})
    first, second = read_history(tmp_path).entries
    assert [metric.name for metric in first.main_metrics] == ["rb_alg"]
    assert [metric.name for metric in second.main_metrics] == ["rb_alg", "empty"]
    assert "rb_alg 0.500, empty 1.000" in render_list([second], tmp_path)


@pytest.mark.parametrize(
    ("benchmark", "suite", "title"),
    [
        ("mtrag (sample)", "mtrag", "mtrag (sample)"),
        ("mtrag_un", "mtrag", "mtrag_un"),
        ("mtrag (sample)", "rewriting_conditional", "mtrag (sample), rewriting_conditional"),
    ],
)
def test_a_suite_that_is_not_the_benchmarks_own_is_named(
    tmp_path: Path, benchmark: str, suite: str, title: str
) -> None:
    (entry,) = read_file(
        save(tmp_path, change=lambda results: facts_of(results).update(benchmark=benchmark, suite=suite))
    )
    assert entry.title == title
    assert f"| {title} " in render_list([entry], tmp_path)
    assert render_entries([entry]).startswith(f"# org/model: {title}, reference\n")


def test_provenance_names_the_basis_of_the_scores(tmp_path: Path) -> None:
    (entry,) = read_file(save(tmp_path))
    known = {"data revision": "cc5b1d4", "run": "official", "encoder": "minilm", "harness version": "0.4.13"}
    known |= {"system prompt": "system (aa)", "git commit": "abc1234", "harness task version": "1.0"}
    assert {field: entry.provenance[field] for field in known} == known
    assert set(DECISIVE) <= entry.provenance.keys()
    assert entry.provenance["run key"] == entry.provenance["ragtasks version"] == UNKNOWN
    assert entry.provenance["model arguments"] == '{"model": "org/model"}'
    assert "sk-secret" not in render_entries([entry])


def test_the_run_key_and_our_version_are_listed_if_the_results_have_them(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        facts_of(results).update(run_key="ff00", ragtasks_version="1.2")

    (entry,) = read_file(save(tmp_path, change=change))
    assert (entry.provenance["run key"], entry.provenance["ragtasks version"]) == ("ff00", "1.2")


def test_harness_tasks_that_differ_show_every_value(tmp_path: Path) -> None:
    path = save(tmp_path)
    results = json.loads(path.read_text(encoding="utf-8"))
    other = json.loads(json.dumps(results["configs"]["mtrag_reference"]))
    other["metadata"]["ragtasks"]["prompts"]["system"] = "mine (cc)"
    results["configs"]["mtrag_reference_govt"] = other
    results["n-samples"]["mtrag_reference_govt"] = results["n-samples"]["mtrag_reference"]
    path.write_text(json.dumps(results), encoding="utf-8")
    lines = (tmp_path / "samples_mtrag_reference_2026-01-01.jsonl").read_text(encoding="utf-8")
    (tmp_path / "samples_mtrag_reference_govt_2026-01-01.jsonl").write_text(lines.replace("<::>", "<::>1"), "utf-8")
    (entry,) = read_file(path)
    assert entry.n == 8
    assert entry.provenance["system prompt"] == "system (aa); mine (cc)"


def test_a_score_of_all_responses_together_is_the_harness_s_own(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        facts_of(results)["suite"] = "multidoc2dial"
        results["results"]["mtrag_reference"] = {"sacrebleu_stderr,none": 9.0, "sacrebleu,none": 31.5}

    def pair(sample: dict[str, Any]) -> None:
        sample["metrics"].append("sacrebleu")
        sample["sacrebleu"] = ["answer", ["target"]]

    path = save(tmp_path, change=change, change_sample=pair, values=lambda _: {"rouge_l": 0.5})
    (entry,) = read_file(path)
    assert dict(entry.means) == {"sacrebleu": Value(31.5, 4, 4), "rouge_l": Value(0.5, 4, 4)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three evaluations, and other files in the same folder."""
    save(tmp_path / "one", "org/One", day=1)
    save(tmp_path / "two", "Two", day=3, setting="full_rag")
    save(tmp_path / "two", "Two", day=2, change=lambda results: facts_of(results).update(benchmark="mtrag (sample)"))
    return tmp_path


def models(history: History, **wanted: str) -> list[tuple[str, str]]:
    return [(entry.model, entry.setting) for entry in select_entries(history.entries, **wanted)]


def test_entries_are_sorted_by_time_and_filtered(folder: Path) -> None:
    history = read_history(folder)
    one, sample, two = ("org/One", "reference"), ("Two", "reference"), ("Two", "full_rag")
    assert history.skipped == ()
    assert models(history) == [one, sample, two]
    assert models(history, model="tWO") == [sample, two]
    assert models(history, setting="reference") == [one, sample]
    assert models(history, benchmark="mtrag") == [one, sample, two]
    assert models(history, benchmark="mtrag (sample)") == [sample]


def test_an_evaluation_without_a_time_is_listed(tmp_path: Path) -> None:
    save(tmp_path, change=lambda results: results.pop("date"))
    (entry,) = read_history(tmp_path).entries
    assert entry.time is None
    assert f"| {UNKNOWN} " in render_list([entry], tmp_path)


def spoil(folder: Path) -> dict[str, str]:
    """Add files without an evaluation, and return name -> a part of the reason."""
    (folder / "results_corrupt.json").write_text('{"configs": ', encoding="utf-8")
    (folder / "results_binary.json").write_bytes(b"\xff\xfe\x00")
    (folder / "results_empty.json").write_text("", encoding="utf-8")
    (folder / "results_gsm8k.json").write_text('{"configs": {"gsm8k": {"metadata": {}}}}', encoding="utf-8")
    (folder / "notes.json").write_text("{}", encoding="utf-8")
    (folder / "samples_mtrag_reference_1999.jsonl").write_text("{}", encoding="utf-8")
    (folder / "one" / "samples_gsm8k_2026-01-01.jsonl").write_text("{}", encoding="utf-8")
    save(folder / "odd", change=lambda results: facts_of(results).update(suite="no such suite"))
    save(folder / "deep", change=lambda results: facts_of(results)["scoring"].update(encoder={"a": 1}))
    save(folder / "bad", change_sample=lambda sample: sample["doc"].pop("task_id"))
    return {
        "results_corrupt.json": "a results file of the harness",
        "results_binary.json": "a results file of the harness",
        "results_empty.json": "a results file of the harness",
        "results_gsm8k.json": "no numbers of lm_eval tasks",
        "notes.json": "not a results file of the harness",
        "samples_mtrag_reference_1999.jsonl": "without their results file",
        "one/samples_gsm8k_2026-01-01.jsonl": "of another package",
        "odd/results_2026-01-01.json": "unknown suite 'no such suite'",
        "deep/results_2026-01-01.json": "scoring.encoder: expected a text",
        "bad/results_2026-01-01.json": "4 errors",
    }


def test_files_without_an_evaluation_are_named_with_the_reason(folder: Path) -> None:
    before = read_history(folder).entries
    reasons = spoil(folder)
    (folder / "page.html").write_text("not ours to judge", encoding="utf-8")
    history = read_history(folder)
    assert history.entries == before
    assert [item.path for item in history.skipped] == sorted(folder / name for name in reasons)
    for item in history.skipped:
        assert reasons[item.path.relative_to(folder).as_posix()] in item.reason
        assert "\n" not in item.reason
    status, text = command("list", folder)
    assert status == 0
    assert "evaluations: 3" in text
    assert f"skipped files: {len(reasons)}" in text
    assert all(f"  {name}: " in text for name in reasons)


def test_a_folder_without_results_is_listed_as_empty(tmp_path: Path) -> None:
    assert "evaluations: 0" in command("list", tmp_path)[1]
    with raises(BenchmarkFileError):
        read_history(tmp_path / "nowhere")


def test_showing_results_requires_exactly_one_file(folder: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="found: 2 results files"):
        read_file(folder / "two")
    (folder / "one" / "results_corrupt.json").write_text("{", encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="found: 2 results files"):
        read_file(folder / "one")
    (folder / "empty").mkdir()
    with pytest.raises(BenchmarkFileError, match="found: none"):
        read_file(folder / "empty")


def test_the_error_of_a_single_file_is_complete(tmp_path: Path) -> None:
    corrupt = tmp_path / "results_corrupt.json"
    corrupt.write_text("{", encoding="utf-8")
    odd = save(
        tmp_path / "odd",
        values=lambda _: {"rb_alg": None},
        change_sample=lambda sample: sample["doc"]["scoring"].update(unscored="x"),
    )
    with pytest.raises(BenchmarkFileError) as caught:
        read_file(corrupt)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"results: {corrupt}"
    assert lines[2].startswith("  found: JSONDecodeError")
    assert [line.partition(":")[0] for line in lines] == ["results", "  expected", "  found", "  next step"]
    with raises(BenchmarkFileError):
        read_file(odd)


def test_an_unknown_benchmark_or_setting_is_an_error(folder: Path) -> None:
    for option, name, answer in (
        ("--benchmark", "mtragg", "unknown benchmark 'mtragg': did you mean 'mtrag'"),
        ("--setting", "fullrag", "unknown setting 'fullrag': did you mean 'full_rag'?"),
        ("--setting", "nosuch", "unknown setting 'nosuch': known: agentic, full_rag, reference, reference_rag"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            select_entries(read_history(folder).entries, **{option[2:]: name})
        assert str(caught.value).startswith(answer)
        assert CliRunner().invoke(app, ["results", "list", str(folder), option, name]).exit_code == 1
    for option, name in (("--benchmark", "mtrag_un"), ("--setting", "reference_rag")):  # a valid name, but absent here
        status, text = command("list", folder, option, name)
        assert (status, "evaluations: 0" in text) == (0, True)


def test_a_number_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    for number, value in ((1, 0.0), (2, -0.0004), (3, 0.25)):
        save(tmp_path / str(number), values=lambda _, value=value: {"rb_alg": value})
    assert "| rb_alg | 0.000 | 0.000  | 0.000          |" in command("show", tmp_path / "1", tmp_path / "2")[1]
    assert "| rb_alg | 0.000 | 0.250  | +0.250         |" in command("show", tmp_path / "1", tmp_path / "3")[1]


def test_the_list_and_the_full_view_have_scores_and_provenance(folder: Path) -> None:
    status, text = command("list", folder, "--model", "two", "--benchmark", "mtrag")
    assert status == 0
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "Two" in line]
    assert [row[:7] for row in cells] == [
        ["2026-01-02 00:00", "Two", "mtrag (sample)", "reference", "official", "4", "rb_alg 0.500"],
        ["2026-01-03 00:00", "Two", "mtrag", "full_rag", "official", "4", "rb_alg 0.500"],
    ]
    assert [row[7:9] + row[10:] for row in cells] == [
        ["minilm", UNKNOWN, "two/results_2026-01-02.json"],
        ["minilm", UNKNOWN, "two/results_2026-01-03.json"],
    ]
    assert "not benchmark scores" in text
    status, text = command("show", folder / "one")
    assert status == 0
    assert "# org/One: mtrag, reference" in text
    assert "not benchmark scores" not in text
    (entry,) = read_file(folder / "one")
    assert all(field in text and value in text for field, value in entry.provenance.items())


def test_names_cannot_move_the_cursor_or_break_a_table(tmp_path: Path) -> None:
    save(tmp_path, "a|b\x1b[2J\n# c\u202e")
    history = read_history(tmp_path)
    text = render_list(history.entries, tmp_path) + render_entries(history.entries)
    assert "a\\|b\\x1b[2J\\n# c\\u202e" in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_the_harness_s_own_output_is_listed(evaluations: Path) -> None:
    history = read_history(evaluations)
    assert history.skipped == ()
    assert [(entry.setting, entry.n) for entry in history.entries if "oracle" in entry.model] == [
        (setting, 4 * LIMIT) for setting in ("full_rag", "reference", "reference_rag")
    ]
    for entry in history.entries:
        assert entry.is_sample
        assert entry.means["rouge_l"].n_scored == 4 * LIMIT
        assert entry.means["rb_alg"] == Value(
            None, 0, 4 * LIMIT, n_tasks=79 if entry.setting == "reference_rag" else 108
        )
        given_ = {"setting", "tasks", "requests", "system prompt", "harness version", "data revision", "run"}
        assert all(entry.provenance[field] != UNKNOWN for field in given_)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside nested JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in places(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.mark.slow
@settings(max_examples=250)
@given(st.data())
def test_no_content_of_a_file_ends_the_listing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any value of results or samples is replaced by any other value.

    The listing has an entry or a reason, and every page is written.
    """

    def change(found: dict[str, Any]) -> None:
        if data.draw(st.booleans()):
            put(found, data.draw(st.sampled_from([path for path in places(found) if path])), data.draw(junk))

    folder = tmp_path_factory.mktemp("any")
    save(folder, change=change, change_sample=change, tasks=(("a", 1),))
    history = read_history(folder)
    assert bool(history.entries) != bool(history.skipped)
    render_list(history.entries, folder)
    render_entries(history.entries)
    render_skipped(history.skipped, folder)
    write_leaderboard(history, folder, folder / "page.html")


def without_summaries(folder: Path) -> None:
    """Make results those of several processes, which have no summaries."""
    for path in folder.rglob("results_*.json"):
        results = json.loads(path.read_text("utf-8"))
        for config in results["configs"].values():
            config["metadata"]["ragtasks"].pop("summary")
        path.write_text(json.dumps(results), encoding="utf-8")


def unreadable(samples: Path) -> None:
    """Turn a file of samples into an unreadable file."""
    samples.write_bytes(b"\xff")


def same(first: Entry, second: Entry) -> bool:
    """Return whether two entries are equal except for the order in which means were added up."""
    values = {name: mean.value for name, mean in first.means.items()}
    assert values == pytest.approx({name: mean.value for name, mean in second.means.items()}, nan_ok=True)
    return replace(first, means=second.means) == second


@pytest.mark.parametrize("written_by", ["run", "score"])
def test_a_listing_has_the_means_of_samples_without_reading_them(
    evaluations: Path, tmp_path: Path, written_by: str
) -> None:
    folder = Path(shutil.copytree(evaluations / "oracle", tmp_path / "all"))
    if written_by == "score":
        number = Folders(tmp_path, tmp_path)
        rescore([folder], {"encoder": "none", "data": "sample"}, tmp_path / "again", number)
        folder = tmp_path / "again"
    without = Path(shutil.copytree(folder, tmp_path / "without"))
    without_summaries(without)
    read = read_history(without).entries
    for samples in folder.rglob("samples_*.jsonl"):
        unreadable(samples)
    listed = read_history(folder)
    assert listed.skipped == ()
    assert len(listed.entries) == len(read) == 3
    assert all(
        same(replace(first, source=second.source), second) for first, second in zip(listed.entries, read, strict=True)
    )
    assert any(reasons for entry in read for reasons in entry.unscored.values())
    assert read_history(folder, is_ranked=True).skipped  # ranked entries require it to be read


def test_a_summary_of_other_samples_is_not_used(tmp_path: Path) -> None:
    def with_summary(results: dict[str, Any], n: int) -> None:
        metrics = {"rb_alg": {"total": 4.0, "n_scored": 4, "unscored": {}}}
        facts_of(results)["summary"] = {"setting": "reference", "n": n, "tasks": "0" * 64, "metrics": metrics}

    (fits,) = read_file(save(tmp_path / "fits", change=lambda results: with_summary(results, 4)))
    (others,) = read_file(save(tmp_path / "others", change=lambda results: with_summary(results, 5)))
    assert (fits.means["rb_alg"].value, others.means["rb_alg"].value) == (1.0, 0.5)
    broken = save(tmp_path / "broken", change=lambda results: facts_of(results).update(summary={"n": 4}))
    with raises(BenchmarkFileError):
        read_file(broken)
