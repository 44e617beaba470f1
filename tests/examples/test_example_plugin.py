"""The example package, built and installed as any package is, and used through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import invalidate_caches
from pathlib import Path

import pytest

from ragtasks.benchmarks import added_benchmark_names
from ragtasks.errors import ConfigurationError
from ragtasks.harness.link import STUB_FOLDER, link, link_state
from ragtasks.judges import rubrics_named
from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.results import read_evaluations
from ragtasks.suites import added_metric_names, suite_named
from retrieval_cache import parse
from tests._commands import run_command
from tests.clients._server import chat_server, completion
from tests.examples._installed import install
from tests.reports._saved import save

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install("ragtasks_example_plugin", tmp_path_factory)


@pytest.fixture
def ask(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command with the package installed; return what it prints."""
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("lm_eval.utils._LOGGING_CONFIGURED", True)
    invalidate_caches()

    def run(*arguments: object) -> str:
        done = run_command(*arguments)
        assert done.status == 0, done.err
        return done.out

    return run


def test_task_benchmark_suite_and_metric_from_the_command_to_the_report(ask: Ask, tmp_path: Path) -> None:
    metadata = json.dumps({"data": "sample", "metrics": ["asks_back"]})
    logs = ("--output_path", tmp_path / "out", "--log_samples")
    printed = ask("run", "--model", "ragtasks-oracle", "--tasks", "harbour_faq", "--metadata", metadata, *logs)
    assert "|keyword_recall|" in printed.replace(" ", "")
    (results,) = (tmp_path / "out").rglob("results_*.json")
    scores = json.loads(results.read_text(encoding="utf-8"))["results"]["harbour_faq"]
    assert {name.partition(",")[0]: value for name, value in scores.items() if name.endswith(",sample")} == {
        "keyword_recall": 1.0,
        "keyword_recall_stderr": "N/A",
        "answer_words": 5.5,
        "answer_words_stderr": pytest.approx(17**0.5 / 2),
        "asks_back": 0.0,
        "asks_back_stderr": 0.0,
    }
    report = ask("report", tmp_path / "out")
    assert "| asks_back |" in report, "a metric that was asked for is in the first table"
    assert "keywords+asks_back" in ask("report", tmp_path / "out", "--full")
    judged = ask("score", tmp_path / "out", "--output-path", tmp_path / "again", "--metadata", '{"data": "sample"}')
    assert judged
    (again,) = (tmp_path / "again").rglob("results_*.json")
    assert json.loads(again.read_text(encoding="utf-8"))["results"]["harbour_faq"]["asks_back,sample"] == 0.0


@pytest.mark.parametrize(
    "line", ["shared_words", "shared_words:min_length=4", "ragtasks_example_plugin.retriever:SharedWords,min_length=4"]
)
def test_its_retriever_by_name_and_by_import_path(ask: Ask, line: str) -> None:
    options = ("--benchmark", "harbour_faq", "--data", "sample")
    ask("retrieve", "--retriever", line, "--name", "mine", *options)
    assert "1.000" in ask("evaluate-run", "mine", *options)


def test_unsupported_options_are_refused(ask: Ask) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'min_length'"):
        parse("shared_words,min_lenght=4")
    with pytest.raises(ConfigurationError, match="found: Fraction of fractions:Fraction"):
        parse("fractions:Fraction")
    with pytest.raises(ConfigurationError, match="no signature found"):
        parse("builtins:dict")
    with pytest.raises(ConfigurationError, match="did you mean 'shared_words'"):
        parse("shared_word")


def test_its_metric_joins_any_suite_once(ask: Ask) -> None:
    assert "asks_back" in added_metric_names()
    assert suite_named("mtrag+asks_back").metrics[:-1] == suite_named("mtrag").metrics
    with pytest.raises(ConfigurationError, match="is already in the suite 'mtrag'"):
        suite_named("mtrag+asks_back+asks_back")


def test_its_rubric_is_judged_and_its_table_ends_a_report(ask: Ask, tmp_path: Path) -> None:
    with chat_server(lambda asked, _: completion(asked.strip().splitlines()[-1].replace("LABEL", "yes"))) as server:
        judges = [{"model": "kind", "base_url": server.base_url}]
        metadata = json.dumps({"data": "sample", "metrics": ["polite"], "judges": judges})
        logs = ("--output_path", tmp_path / "out", "--log_samples")
        ask("run", "--model", "ragtasks-oracle", "--tasks", "harbour_faq", "--metadata", metadata, *logs)
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text(encoding="utf-8"))["results"]["harbour_faq"]["polite,sample"] == 1.0
    assert "Refusals" in ask("report", tmp_path / "out", "--table", "refusals")
    assert "Refusals" not in ask("report", tmp_path / "out", "--full")
    logs = ("--output_path", tmp_path / "none", "--log_samples")
    ask("run", "--model", "ragtasks-refuse", "--tasks", "harbour_faq", "--data", "sample", *logs)
    (sample, *_) = next((tmp_path / "none").rglob("samples_*.jsonl")).read_text(encoding="utf-8").splitlines()
    assert json.loads(sample)["filtered_resps"][0] in ask("report", tmp_path / "none", "--table", "refusals")


def test_unknown_names_of_rubrics_and_tables_are_refused(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = read_evaluations([save(tmp_path)])
    assert "polite" in added_metric_names()
    with pytest.raises(ConfigurationError, match="unknown rubric 'polte': did you mean 'polite'"):
        rubrics_named(["polte"])
    with pytest.raises(ConfigurationError, match="unknown table 'refusal': did you mean 'refusals'"):
        report_sections(saved, ReportOptions(tables=("refusal",)))
    monkeypatch.setattr("ragtasks_example_plugin.table._line", None)
    with pytest.raises(
        ConfigurationError, match=r"table 'refusals': package ragtasks-example-plugin \(.*table:refusals"
    ):
        report_sections(saved, ReportOptions(tables=("refusals",)))


def test_its_command_is_in_the_help_and_runs(ask: Ask) -> None:
    (section,) = [part for part in ask("--help").split("╭─ ") if part.startswith("Your own data")]
    assert "harbour-questions" in section
    assert "Example: ragtasks harbour-questions --word ferry" in ask("harbour-questions", "--help")
    assert len(ask("harbour-questions", "--word", "ferry").splitlines()) == 2


def test_doctor_and_link_include_it(ask: Ask, tmp_path: Path) -> None:
    assert added_benchmark_names() == ["harbour_faq"]
    printed = ask("doctor")
    assert "benchmark of another package: harbour_faq" in printed
    assert "harness tasks of another package: harbour_faq (" in printed
    folder = tmp_path / "lm_eval" / "tasks"
    folder.mkdir(parents=True)
    written = link(harness_folder=folder).written
    assert folder / STUB_FOLDER / "added" / "harbour_faq" / "harbour_faq.yaml" in written
    assert link_state(harness_folder=folder).state.value == "linked to here"
