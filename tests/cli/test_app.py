"""The command line: help, errors with status 1, and output of commands."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ragtasks import __version__
from ragtasks.benchmarks import benchmark_folder, open_benchmark, source_of
from ragtasks.cli import app
from ragtasks.harness.tasks import task_folder
from tests._commands import run_command


def commands_of(group: Any, *above: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, including commands of groups."""
    for name, command in group.commands.items():
        yield (*above, name)
        if hasattr(command, "commands"):
            yield from commands_of(command, *above, name)


COMMANDS = sorted(commands_of(typer.main.get_command(app)))
N_STUBS = sum(not path.name.startswith("_") for path in task_folder().rglob("*.yaml"))


def in_process(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def as_command(
    *arguments: str, code: str = "from ragtasks.cli import main; main()", **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::DeprecationWarning:ragtasks", "-c", code, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | variables)


def test_the_help_lists_every_command() -> None:
    status, text = in_process("--help")
    assert status == 0
    assert {("run",), ("tasks", "link"), ("tasks", "path"), ("data", "fetch"), ("doctor",), ("report",)} <= set(
        COMMANDS
    )
    assert all(words[0] in text for words in COMMANDS)


# `run` passes its arguments to the harness, including the help flag.
@pytest.mark.parametrize("words", [words for words in COMMANDS if words != ("run",)], ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_a_help(words: tuple[str, ...], flag: str) -> None:
    status, text = in_process(*words, flag)
    assert status == 0
    assert "Usage: " in text


LEAVES = [words for words in COMMANDS if not any(other[: len(words)] == words for other in COMMANDS if other != words)]


def help_of(*words: str) -> str:
    """Return the first screen of the help at eighty columns."""
    return CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).output


def test_there_are_at_most_twenty_top_level_commands() -> None:
    assert len({words[0] for words in COMMANDS}) <= 20


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_every_help_fits_a_screen(words: tuple[str, ...]) -> None:
    assert len(help_of(*words).strip().splitlines()) <= 40, "declare options that a first hour does not need as hidden"


@pytest.mark.parametrize("words", [words for words in LEAVES if words != ("run",)], ids=" ".join)
def test_the_full_help_lists_every_option_and_the_first_screen_names_it(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    options = {option.opts[0]: option.hidden for option in command.params if option.param_type_name == "option"}
    first, (status, every) = help_of(*words), in_process(*words, "--help-all")
    assert status == 0
    assert {name for name in options if f" {name} " in every or f" {name}," in every} == options.keys()
    screen, _, example = first.partition("Example: ")
    assert not any(f" {name} " in screen for name, is_hidden in options.items() if is_hidden)
    last_line = example.rstrip().splitlines()[-1]
    assert last_line.endswith(f"{' '.join(words)} --help-all") == any(options.values())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_that_parses(words: tuple[str, ...]) -> None:
    if words not in LEAVES and len(words) > 1:
        return
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    what, _, example = str(command.epilog).partition(": ")
    assert what == "Example", "give an example: ours in ragtasks/cli/app.py, those of a part as its epilog"
    assert f"Example: {example}" in " ".join(help_of(*words).split())
    for line in example.split(";"):
        program, *arguments = shlex.split(line)
        if program == "ragtasks":
            parsed(typer.main.get_command(app), arguments)


def test_the_generated_page_lists_hidden_options_too() -> None:
    pytest.importorskip("mkdocs")
    page = "\n".join(runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "docs_reference.py"))["commands"]())
    for words in LEAVES:
        command: Any = typer.main.get_command(app)
        for word in words:
            command = command.commands[word]
        part = page.partition(f"### `ragtasks {' '.join(words)}`")[2].partition("\n### ")[0]
        assert {name for one in command.params if one.param_type_name == "option" for name in one.opts[:1]} == set(
            re.findall(r"^\| `(--[\w-]+)", part, re.MULTILINE)
        )


def parsed(command: Any, arguments: list[str]) -> None:
    """Parse the arguments of a command without running it. A wrong option is an error."""
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    if arguments != ["--help"]:
        command.make_context("ragtasks", arguments)


def test_without_a_command_the_three_ways_in_are_shown() -> None:
    status, text = in_process()
    assert status == 0
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == ["a", "my", "a"]


def test_help_of_run_lists_own_options_and_arguments_of_the_harness() -> None:
    text = help_of("run")
    assert "ragtasks-oracle" in text
    assert "--model_args" in text


@pytest.mark.slow
def test_the_full_help_of_run_lists_options_of_ragtasks_and_the_harness() -> None:
    done = as_command("run", "--help-all")
    assert done.returncode == 0
    assert "--dry-run" in done.stdout
    assert "--apply_chat_template" in done.stdout
    assert "--metadata" in done.stdout


def test_the_version_is_the_package_s() -> None:
    assert in_process("--version") == (0, f"{__version__}\n")


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "ragtasks", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{__version__}\n"


def test_an_unknown_command_or_option_is_a_usage_error() -> None:
    assert in_process("fletch")[0] == 2
    assert in_process("tasks", "path", "--nope")[0] == 2


def test_a_clear_error_is_one_message_on_stderr_and_status_1() -> None:
    done = as_command("data", "fetch", "mtrg")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "ragtasks: unknown benchmark 'mtrg': did you mean 'mtrag' or 'mtrag_s' or 'mtrag_un'?\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nowhere-at-all"], "ragtasks: results: nowhere-at-all"),
        (["report", "nowhere-at-all"], "found: no such file or folder"),
        (["report", "resluts/mine"], "found: no folder resluts\n  next step: check the path; did you mean results?"),
        (["results", "list", "resluts"], "did you mean results?"),
        (["score", "resluts", "--output", "x"], "found: no such file or folder"),
        (["review", "serve", "nowhere"], "found: no such file or folder"),
        (["score", "results", "--judge", "gpt-4o-mini"], "write openai/gpt-4o-mini for a model of OpenAI"),
        (["data", "fetch", "mtrag", "--group", "taks"], "unknown group of files"),
        (["data", "fetch", "mtrag", "--base-url", "ftp://host/"], "cannot fetch from this base URL"),
        (["data", "fetch", "mtrag", "--from", "."], "the checkout does not contain the benchmark files"),
    ],
)
def test_main_turns_every_clear_error_into_status_1(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    done = run_command(*arguments)
    assert done.status == 1
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["--taks", "mtrag"], "'--tasks'"),
        (["--encodr=none"], "'--encoder'"),
        (["--dat", "sample"], "'--data'"),
        (["--zzz"], "see `ragtasks run --help-all`"),
    ],
)
def test_a_misspelt_option_of_run_names_its_nearest(arguments: list[str], nearest: str) -> None:
    done = run_command("run", "--model", "ragtasks-oracle", *arguments)
    assert done.status == 2
    text = done.err
    assert text.startswith(f"ragtasks: no option {arguments[0].partition('=')[0]}. Next step: ")
    assert nearest in text


def test_path_prints_only_the_folder_of_the_yamls() -> None:
    assert in_process("tasks", "path") == (0, f"{task_folder()}\n")
    assert list(task_folder().rglob("mtrag_full_rag.yaml"))


def test_fetch_copies_files_of_a_checkout(mtrag_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path))
    status, text = in_process("data", "fetch", "mtrag_un", "--from", str(mtrag_root))
    assert status == 0
    assert "5 copied, 0 already there" in text
    folder = tmp_path / source_of("mtrag_un").folder
    assert f"in {folder}" in text
    assert len(open_benchmark("mtrag_un", folder).tasks) == 507
    status, text = in_process("data", "fetch", "mtrag_un", "--from", str(mtrag_root))
    assert "0 copied, 5 already there" in text


def test_fetch_refuses_files_that_differ_from_the_official_ones(
    mtrag_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two task files were reassembled: their tasks are the official ones, their bytes are not."""
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path))
    done = run_command("data", "fetch", "mtrag", "--from", mtrag_root)
    assert done.status == 1
    assert re.findall(r"(\S+): wrong checksum \(git blob", done.err) == [
        "mtrag-human/generation_tasks/RAG.jsonl",
        "mtrag-human/generation_tasks/reference+RAG.jsonl",
    ]
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.fixture
def light_harness(tmp_path: Path) -> Path:
    """A folder with an `lm_eval` that only contains a tasks folder, found before the real one."""
    package = tmp_path / "site" / "lm_eval"
    (package / "tasks").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('linking never imports the harness')\n", encoding="utf-8")
    return package


@pytest.mark.slow
def test_link_and_unlink_print_changes(light_harness: Path) -> None:
    search = os.pathsep.join([str(light_harness.parent), str(Path(__file__).resolve().parents[2])])
    stubs = light_harness / "tasks" / "ragtasks"
    done = as_command("tasks", "link", PYTHONPATH=search)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{N_STUBS} written, 0 unchanged, 0 removed in {stubs}\n"
    assert len(list(stubs.rglob("*.yaml"))) == N_STUBS
    words = (["link"], ["link", "--remove"], ["link", "--remove"])
    later = "; ".join(f"main({['tasks', *one]}, standalone_mode=False)" for one in words)
    done = as_command(code=f"from ragtasks.cli.app import app as main; {later}", PYTHONPATH=search)
    again, removed, nothing = done.stdout.splitlines()
    assert again == f"0 written, {N_STUBS} unchanged, 0 removed in {stubs}"
    assert removed == f"0 written, 0 unchanged, {N_STUBS} removed in {stubs}"
    assert nothing == f"0 written, 0 unchanged, 0 removed in {stubs}"
    assert not stubs.exists()


def test_link_without_a_tasks_folder_is_a_clear_error(light_harness: Path) -> None:
    (light_harness / "tasks").rmdir()
    search = os.pathsep.join([str(light_harness.parent), str(Path(__file__).resolve().parents[2])])
    done = as_command("tasks", "link", PYTHONPATH=search)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("ragtasks: the harness's tasks folder")


def test_doctor_prints_its_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path))
    status, text = in_process("doctor", "--endpoint", "http://anna:pass-word@127.0.0.1:1/v1")
    assert status == 0
    assert "endpoint http://127.0.0.1:1/v1: no answer" in text
    assert "Next step: start the server, or correct its address or key" in text
    assert "pass-word" not in text


def write_evaluation(folder: Path) -> None:
    """Write the files of one evaluation that the report reads, named as by the harness."""
    facts = {
        "benchmark": "mtrag (sample)",
        "suite": "mtrag",
        "setting_tasks": {"reference": {"mtrag_reference_govt": 1}},
        "configuration": {"run": "official"},
        "scoring": {"scored_by": f"ragtasks {__version__}", "encoder": "none", "idk_detector": "ngrams-2"},
    }
    results = {
        "config": {"model": "m"},
        "configs": {"mtrag_reference_govt": {"metadata": {"ragtasks": facts}}},
        "n-samples": {"mtrag_reference_govt": {"original": 1, "effective": 1}},
    }
    (folder / "results_2026-01-01T00-00-00.json").write_text(json.dumps(results), encoding="utf-8")
    doc = {"task_id": "c<::>1", "turn": 1, "domain": "govt", "setting": "reference", "answerability": "ANSWERABLE"}
    doc |= {
        "question_types": ["Factoid"],
        "multi_turn": "N/A",
        "conversation_id": "c",
        "passages": [],
        "references": [],
        "history": [],
        "question": "What is it?",
        "target": "It is a loan.",
    }
    sample = {
        "doc": doc,
        "filtered_resps": ["A loan."],
        "metrics": ["rb_alg", "rouge_l"],
        "rb_alg": float("nan"),
        "rouge_l": 0.5,
    }
    path = folder / "samples_mtrag_reference_govt_2026-01-01T00-00-00.jsonl"
    path.write_text(json.dumps(sample), encoding="utf-8")


def test_report_prints_tables(tmp_path: Path) -> None:
    write_evaluation(tmp_path)
    status, text = in_process("report", str(tmp_path), "--metric", "rouge_l")
    assert status == 0
    assert text.startswith("# mtrag (sample)\n")
    assert "## rouge_l in setting reference" not in text
    assert "## rouge_l in setting reference" in in_process("report", str(tmp_path), "--metric", "rouge_l", "--full")[1]
    assert "0.500" in text
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--metric", "rouge"]).exit_code == 1


def test_results_are_removed_with_their_samples_with_force(tmp_path: Path) -> None:
    write_evaluation(tmp_path)
    other = tmp_path / "samples_mtrag_reference_govt_2027-01-01T00-00-00.jsonl"
    other.write_text("", encoding="utf-8")
    refused = CliRunner().invoke(app, ["results", "remove", str(tmp_path)])
    assert "nothing was removed. Next step: add --force" in str(refused.exception)
    assert len(list(tmp_path.iterdir())) == 3
    status, text = in_process("results", "remove", str(tmp_path), "--force")
    assert (status, text.count("removed ")) == (0, 2)
    assert list(tmp_path.iterdir()) == [other]


def test_results_and_stored_runs_share_their_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    write_evaluation(tmp_path / "results")
    assert in_process("retrieve", "--retriever", "bm25", "--data", "sample", "--name", "mine")[0] == 0
    listed = in_process("results", "list")[1]
    assert "mtrag (sample)" in listed
    assert "mine" in listed
    assert "mine" not in in_process("results", "list", "results")[1]
    assert '"retriever"' in in_process("results", "show", "mine")[1]
    assert in_process("results", "show", "mine", "mine") == (0, "no difference\n")
    mixed = CliRunner().invoke(app, ["results", "show", "mine", "results"])
    assert "not both results" in str(mixed.exception)
    assert in_process("check", "mine") == (0, "all files are unchanged\n")
    assert in_process("results", "remove", "mine") == (0, "removed mine\n")


def test_the_harness_tasks_are_listed_by_benchmark() -> None:
    status, text = in_process("tasks", "list", "--benchmark", "mtrag_un", "--format", "csv")
    assert status == 0
    assert "mtrag_un_full_rag_fiqa" in text
    assert "multihop_rag" not in text
    unknown = CliRunner().invoke(app, ["tasks", "list", "--benchmark", "mtrg"])
    assert "mtrag" in str(unknown.exception)


def test_check_detects_the_benchmark_of_a_folder(tmp_path: Path) -> None:
    def checked(folder: Path) -> tuple[object, str]:
        done = run_command("check", folder)
        return done.status, done.out

    for name, tasks in {"mtrag_s": 25, "multihop_rag": 24}.items():
        copy = tmp_path / name
        shutil.copytree(benchmark_folder(name, "sample", Path()), copy)
        status, said = checked(copy)
        assert status == 0
        assert said.startswith(f"{copy}: no error\nin the form of {name}, with statistics of its own: {tasks} tasks\n")
        assert f"--tasks {name} --data {copy}" in said
        shutil.copytree(copy, tmp_path / f"broken_{name}")
    (tmp_path / "broken_multihop_rag" / "retrieved.json").write_text("{}", encoding="utf-8")
    rows = tmp_path / "broken_mtrag_s" / "mtrag-synthetic" / "generation_tasks" / "synthetic.jsonl"
    rows.write_text('{"task_id": 1}\n' + rows.read_text("utf-8"), "utf-8")
    for name, broken in {"mtrag_s": "line 1", "multihop_rag": "retrieved.json"}.items():
        status, said = checked(tmp_path / f"broken_{name}")
        assert status == 1
        assert f"in the form of {name}, with errors" in said
        assert broken in said
    (tmp_path / "empty").mkdir()
    status, said = checked(tmp_path / "empty")
    assert status == 1
    assert "expected files: conversations.jsonl, passages.jsonl (your own); or mtrag-synthetic/" in said
    assert "dataset/MultiHopRAG.json, dataset/corpus.json (multihop_rag)" in said
    (tmp_path / "empty" / "qa_llama.py").touch()
    assert "expected files" in checked(tmp_path / "empty")[1], "prompts identify no benchmark"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["check", "answers.jsonl"], "add --task"),
        (["check", ".", "--json"], "--json: not used when . is checked as a folder of your own"),
        (["submit", "--output", "x.jsonl"], "--task is missing"),
        (["submit", "--output", "x.jsonl", "--track", "trec-rag"], "give --results"),
        (["submit", "--output", "x.jsonl", "--task", "A", "--run-id", "r"], "require --track trec-rag"),
        (["compare", ".", "official"], "both runs (official) and results"),
        (["compare", ".", ".", "--by", "domain"], "--by domain: expected model or setting"),
        (["compare", "a", "b", "--by", "model"], "--by model: expected all or domain"),
        (["compare", "results/a", "results/b"], "a folder of results, or a results file"),
    ],
)
def test_errors_depend_on_the_arguments(
    line: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text("{}", encoding="utf-8")
    done = run_command(*line)
    assert done.status == 1
    assert words in done.err


def test_fetch_lists_benchmarks() -> None:
    status, text = in_process("data", "fetch")
    assert status == 0
    assert re.search(r"\| mtrag +\| corpora +\| +4 \|", text)


@pytest.mark.parametrize("old", ["--output_path", "--output-path"])
def test_former_spellings_of_output_are_accepted(old: str, tmp_path: Path) -> None:
    status, text = in_process("tasks", "export", "--data", "sample", f"{old}={tmp_path / 'tasks.jsonl'}")
    assert status == 0
    assert "108 tasks of mtrag (sample)" in text
    assert old not in in_process("tasks", "export", "--help")[1]
