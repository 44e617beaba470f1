"""The command `report`: output, files and errors."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import ConfigurationError
from tests._commands import run_command
from tests.reports._pages import blocks_of
from tests.reports._saved import save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of one model in two settings."""
    folder = tmp_path / "results"
    for day, setting in enumerate(("reference", "full_rag"), start=1):
        save(folder, day=day, setting=setting, values=lambda _: {"rb_alg": 0.5, "rouge_l": 0.25})
    return folder


def report(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refusal(*arguments: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        report(*arguments)
    return str(caught.value)


def test_tables_are_markdown_by_default(folder: Path) -> None:
    text = report(folder, "--full")
    assert text.startswith("# mtrag\n")
    assert "## By setting\n" in text
    assert "## Loss from reference to full_rag: rb_alg, org/model\n" in text
    assert "## rb_alg in setting full_rag\n" in text
    assert "## rouge_l in setting full_rag\n" in report(folder, "--full", "--metric", "rb_alg", "--metric", "rouge_l")


def test_the_output_contains_the_conclusion_and_names_other_tables(folder: Path) -> None:
    text = report(folder)
    assert text.startswith("# mtrag\n")
    assert "\n## " not in text
    assert "- Loss from reference to full_rag" in text
    assert "--full prints " in text
    assert "scored with: encoder minilm, IDK detector ngrams-2; 95 % intervals: over conversations\n" in text
    assert len(text.splitlines()) < 25
    assert text.rpartition("- ")[0].strip() in (whole := report(folder, "--full"))
    assert "profiles: official scripts for metrics that end in _ibm" in whole
    assert "profiles:" not in text
    assert "Conclusion" in {line["table"] for line in csv.DictReader(report(folder, "--format", "csv").splitlines())}


def test_other_formats(folder: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(report(folder, "--format", "csv"))))
    assert {"0.5", "0.25"} <= {line["value"] for line in lines}
    text = report(folder, "--format", "latex")
    assert text.startswith(r"\begin{table}")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") > 3


@pytest.mark.slow
def test_files_are_written_to_the_requested_paths(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tables, plots, page = tmp_path / "new" / "report.md", tmp_path / "plots", tmp_path / "page.html"
    said = report(folder, "--output", tables, "--plots", plots, "--html", page)
    assert tables.read_text(encoding="utf-8") == report(folder, "--full")
    pictures = sorted(plots.iterdir())
    assert [path.name for path in pictures] == [
        "1_mtrag_by_setting.png",
        "1_mtrag_by_setting_on_the_4_shared_tasks.png",
        "1_mtrag_rb_alg_in_setting_full_rag.png",
        "1_mtrag_rb_alg_in_setting_reference.png",
    ]
    text = page.read_text(encoding="utf-8")
    assert "org/model" in text
    assert sorted(said.splitlines()) == sorted(f"wrote {path}" for path in (tables, page, *pictures))


def test_pictures_of_the_page_have_the_titles_of_their_tables(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report(folder, "--html", page)
    _, plots = page.read_text(encoding="utf-8").split('<section id="plots"')
    assert re.findall(r"<figcaption>([^<]*)<", plots) == [
        "By setting",
        "By setting, on the 4 shared tasks",
        "Reference-based score (rb_alg), reference passages",
        "Reference-based score (rb_alg), full RAG",
    ]


def test_losses_on_the_page_are_of_the_requested_metric(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for metrics, expected in (((), "rb_alg"), (("--metric", "rouge_l", "--metric", "rb_alg"), "rouge_l")):
        report(folder, "--html", page, *metrics)
        book, *_ = blocks_of(page)
        meanings = [item["meaning"] for item in book["failures"]]
        assert any(text.endswith(f"and {expected} is worse than in setting reference") for text in meanings)


def test_without_arguments_the_newest_results_are_reported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    for name, hour in (("newer", 20), ("older", 10)):
        shutil.copytree(folder, here / "results" / name)
        for file in (here / "results" / name).rglob("results_*.json"):
            os.utime(file, (3600 * hour, 3600 * hour))
    monkeypatch.chdir(here)
    done = run_command("report")
    assert (done.status, done.out) == (0, run_command("report", "results/newer").out)
    assert "report of results/newer, the newest results" in done.err


def test_invalid_reports_are_refused_with_the_next_step(folder: Path) -> None:
    assert "did you mean 'rb_alg'" in refusal(folder, "--metric", "rb_algo")


@pytest.mark.parametrize("option", ["--html", "--output"])
def test_a_folder_for_a_file_is_an_error_before_the_tables(folder: Path, tmp_path: Path, option: str) -> None:
    done = run_command("report", folder, option, tmp_path)
    assert (done.status, done.out) == (1, "")
    assert f"{option}: {tmp_path} is a folder" in done.err


def test_a_file_for_the_folder_of_pictures_is_an_error_before_the_tables(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_command("report", folder, "--plots", tmp_path / "file")
    assert (done.status, done.out) == (1, "")
    assert "is a file, and a folder is needed" in done.err


def test_a_missing_folder_in_a_path_of_results_is_suggested(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "here" / "results" / "mine")
    monkeypatch.chdir(tmp_path / "here")
    assert "did you mean results/mine?" in run_command("compare", "mine", "other").err


@pytest.mark.parametrize("option", ["--html", "--plots", "--output"])
def test_a_name_that_no_file_can_have_is_an_error_before_the_tables(folder: Path, option: str) -> None:
    done = run_command("report", folder, option, folder / ("p" * 252 + ".html"))
    assert done.status == 1
    assert "File name too long" in done.err
    assert not done.out
