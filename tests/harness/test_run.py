from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lm_eval.evaluator
import lm_eval.tasks
import pytest
import yaml
from lm_eval.tasks import TaskManager

from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.harness.extras import version_of
from ragtasks.harness.models import Oracle
from ragtasks.harness.run import _RagtasksFirst, run_harness
from ragtasks.harness.tasks import task_folder
from tests._commands import CommandResult
from tests.harness._endpoint import Endpoint
from tests.harness.conftest import CHATML

Command = Callable[..., CommandResult]
TASK = "mtrag_reference_fiqa"
N_OWN = len([path for path in task_folder().rglob("*.yaml") if not path.name.startswith("_")])
SECRET = "sk-31337"
METADATA = '{"data": "sample", "encoder": "none"}'


@pytest.fixture(autouse=True)
def _check_process_is_unchanged() -> Iterator[None]:
    """Check that the process is unchanged after every test."""
    theirs = lm_eval.evaluator
    before = (list(sys.argv), theirs.set_torch_seed, theirs.add_env_info)
    yield
    assert (sys.argv, theirs.set_torch_seed, theirs.add_env_info) == before
    assert lm_eval.tasks.TaskManager is TaskManager


def written(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def test_only_our_tasks_are_indexed() -> None:
    manager = _RagtasksFirst(metadata={"data": "sample"})
    full_rag_tasks = ["mtrag_full_rag", "mtrag_live_full_rag", "mtrag_reference_rag", "mtrag_un_full_rag"]
    assert manager.match_tasks(["mtrag_*_rag"]) == full_rag_tasks
    assert len(manager.all_tasks) == N_OWN
    assert manager.metadata == {"data": "sample"}


@pytest.mark.slow
def test_built_in_tasks_are_indexed_on_demand(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One test, because the harness reads its own 14,000 YAML files."""
    manager = _RagtasksFirst(metadata={"data": "sample"})
    assert manager.match_tasks(["hellaswag"]) == ["hellaswag"]
    assert manager.match_tasks([TASK]) == [TASK]
    n_known = len(manager.all_tasks)
    assert n_known > 1000
    with pytest.raises(ConfigurationError, match="did you mean 'hellaswag'"):
        manager.match_tasks(["hella_swag"])
    assert len(manager.all_tasks) == n_known
    assert manager.metadata == {"data": "sample"}
    monkeypatch.chdir(tmp_path)
    for name, message in (
        ("mtrag_fullrag", "Tasks not found: mtrag_fullrag.*did you mean 'mtrag_full_rag'"),
        ("mtrag_fullrag_*", r"Tasks not found: mtrag_fullrag_\*"),
        ("zzz", "Tasks not found: zzz.*`lm_eval ls tasks`"),
    ):
        assert_one_line(command("--model", "dummy", "--tasks", name), message)


def test_a_users_task_folder_is_read_too(command: Command, tmp_path: Path) -> None:
    base = next(task_folder().rglob(f"{TASK}.yaml"))
    (tmp_path / "mine.yaml").write_text(f"include: {json.dumps(str(base))}\ntask: mine\n")
    done = command(
        "--model", "ragtasks-oracle", "--tasks", f"mine,{TASK}", "--include_path", str(tmp_path), "--limit", "1"
    )
    assert done.status == 0, done.err
    assert "|mine " in done.out
    assert f"|{TASK}" in done.out


def test_the_dummy_model_runs_and_its_samples_are_written(command: Command, tmp_path: Path) -> None:
    """An output folder is enough, because every reader of results also reads samples."""
    done = command("--model", "dummy", "--tasks", TASK, "--limit", "3", "--output_path", str(tmp_path))
    assert done.status == 0, done.err
    table = done.out.split("\n# ")[0]
    assert table.count("|sample|") == len(table.split("|-")[-1].split("\n", 1)[1].strip().splitlines())
    (samples,) = written(tmp_path, "samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row["filtered_resps"] for row in rows] == [["lol"]] * 3
    (results,) = written(tmp_path, "results_*.json")
    scores = json.loads(results.read_text())["results"][TASK]
    assert scores["rouge_l,sample"] == pytest.approx(sum(row["rouge_l"] for row in rows) / 3)


@pytest.mark.slow
def test_a_run_imports_neither_torch_nor_other_model_types_and_starts_no_pip(
    tmp_path: Path,
) -> None:
    (tmp_path / "half_removed-1.0.dist-info").mkdir()  # leftover of an interrupted pip
    (tmp_path / "mine-2.5.dist-info").mkdir()
    (tmp_path / "mine-2.5.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 2.5\n")
    code = """
import sys
started = []
sys.addaudithook(lambda event, given: started.append(given[1][0]) if event == "subprocess.Popen" else None)
from ragtasks.cli import main
try:
    main(["run", *sys.argv[1:]])
except SystemExit as end:
    assert not end.code
assert "torch" not in sys.modules
families = {"custom", "doc2dial", "mtrag", "multihop_rag", "trec_rag"}
assert [name for name in families if f"ragtasks.benchmarks.{name}" in sys.modules] == ["mtrag"]
assert sys.executable not in started, started
"""
    options = ["--model", "ragtasks-oracle", "--tasks", TASK, "--data", "sample", "--encoder", "none", "--limit", "1"]
    subprocess.run(
        [sys.executable, "-c", code, *options, "--output", str(tmp_path / "results")],
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    (file,) = written(tmp_path / "results", "results_*.json")
    results = json.loads(file.read_text())
    lines = results["pretty_env_info"].splitlines()
    assert lines[0] == f"Python version: {sys.version}"
    assert {"mine==2.5", f"lm_eval=={version('lm_eval')}"} < set(lines)
    assert (results["lm_eval_version"], results["transformers_version"]) == (
        version("lm_eval"),
        version("transformers"),
    )


def test_predictions_only_are_written_unscored(command: Command, tmp_path: Path) -> None:
    done = command(
        "--model", "ragtasks-refuse", "--tasks", TASK, "--limit", "2", "--predict_only", "--output_path", str(tmp_path)
    )
    assert done.status == 0, done.err
    (samples,) = written(tmp_path, "samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert all(row["filtered_resps"][0].startswith("I do not have") for row in rows)
    assert not any("rouge_l" in row or "scoring" in row["doc"] for row in rows)


@pytest.mark.parametrize("model", ["local-chat-completions", "local-completions"])
def test_a_chat_model_without_the_flag_is_one_clear_error(model: str, command: Command, endpoint: Endpoint) -> None:
    # The second differs only by its address, which only the harness task receives.
    arguments = f"base_url={endpoint.chat_url},model=loopback,tokenizer_backend=None,auth_token={SECRET}"
    done = command("--model", model, "--model_args", arguments, "--tasks", TASK, "--limit", "1")
    assert done.status == 1
    (message,) = [line for line in done.err.splitlines() if line.startswith("ragtasks: ")]
    assert "chat" in message
    assert "--apply_chat_template" in done.err[done.err.index(message) :]
    assert SECRET not in done.err[done.err.index(message) :]
    assert "Traceback" not in done.err
    assert endpoint.requests == []


def test_an_option_without_its_value_is_a_usage_error(command: Command) -> None:
    done = command("--tasks", TASK, "--encoder")
    assert done.status == 2
    assert "Option '--encoder' requires an argument" in done.err


def test_an_option_joins_the_metadata_of_a_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "evaluation.yaml"
    settings = {"model": "ragtasks-oracle", "tasks": [TASK], "limit": 1, "metadata": {"data": "sample", "max_words": 9}}
    config.write_text(yaml.safe_dump(settings))
    run_harness(["--config", str(config), "--output_path", str(tmp_path / "results")], {"encoder": "none"})
    (results,) = written(tmp_path, "results_*.json")
    configuration = json.loads(results.read_text())["configs"][TASK]["metadata"]["ragtasks"]["configuration"]
    assert (configuration["data"], configuration["encoder"], configuration["max_words"]) == ("sample", "none", 9)


@pytest.mark.parametrize("on_command_line", [True, False])
def test_the_flag_may_be_in_the_harness_config_file(
    on_command_line: bool, command: Command, endpoint: Endpoint, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "model": "local-chat-completions",
        "model_args": {"base_url": endpoint.chat_url, "model": "loopback", "eos_string": "</s>"},
        "tasks": [TASK],
        "limit": 1,
    }
    config = tmp_path / "evaluation.yaml"
    model = ["--model", settings["model"]] if on_command_line else []
    config.write_text(yaml.safe_dump(settings))
    refused = command("--config", str(config), *model)
    assert (refused.status, len(endpoint.requests)) == (1, 0)
    assert "--apply_chat_template" in refused.err
    config.write_text(yaml.safe_dump({**settings, "apply_chat_template": True}))
    assert command("--config", str(config), *model).status == 0
    assert len(endpoint.requests) == 1


def test_no_secret_of_the_model_is_written_logged_or_printed(
    command: Command,
    endpoint: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}-environment")
    arguments = json.dumps(
        {
            "base_url": endpoint.chat_url,
            "model": "loopback",
            "eos_string": "</s>",
            "auth_token": f"{SECRET}-token",
            "header": {"Authorization": f"Bearer {SECRET}-header"},
        }
    )
    done = command(
        "--model", "local-chat-completions", "--model_args", arguments, "--tasks", "mtrag_reference", "--limit", "1",
        "--apply_chat_template", "--log_samples", "--output_path", str(tmp_path),
    )  # fmt: skip
    assert done.status == 0, done.err
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {SECRET}-header"
    assert len(written(tmp_path, "samples_*.jsonl")) == 4
    (results,) = written(tmp_path, "results_*.json")
    arguments_there = json.loads(results.read_text())["config"]["model_args"]
    assert (arguments_there["auth_token"], arguments_there["header"]) == ("***", "***")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert SECRET not in done.out + done.err
    assert not [record for record in caplog.records if SECRET in record.getMessage()]


def test_a_bad_option_of_ours_ends_with_status_1(command: Command) -> None:
    done = command("--model", "ragtasks-oracle", "--tasks", TASK, metadata={"encodr": "minilm"})
    assert done.status == 1
    assert "did you mean 'encoder'" in done.err
    assert "Traceback" not in done.err


def test_a_missing_vllm_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.harness.extras.version_of", version_of.__wrapped__)
    done = command("--model", "vllm", "--tasks", TASK)
    assert done.status == 1
    # With a GPU, the missing library is reported when it is imported.
    assert re.search("vLLM is not installed|a library is missing|missing arguments", done.err.splitlines()[-1])
    assert "Traceback" not in done.err


def assert_one_line(done: CommandResult, message: str) -> None:
    assert done.status == 1
    assert re.search(f"^ragtasks: .*{message}", done.err.splitlines()[-1])
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "dummy"], "no task is named.*add --tasks"),
        (["--tasks", TASK], "--model hf: missing arguments.*add --model_args pretrained="),
        (["--model", "ragtasks-oracl", "--tasks", TASK], "--model ragtasks-oracl: .*did you mean 'ragtasks-oracle'"),
        (["--model", "dummy", "--tasks", TASK, "--fewshot_as_multiturn", "true"], "fewshot_as_multiturn"),
        (["--config", "none.yaml"], "--config: .*none.yaml"),
    ],
)
def test_a_common_problem_is_one_line(
    arguments: list[str], message: str, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(command(*arguments), message)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--metadata", f'{{"data": "sample", key: {SECRET}}}'],
        [f"--metadata={{data: {SECRET}}}"],
        ["--model_args", f'{{"auth_token": "{SECRET}"'],
    ],
)
def test_broken_json_is_one_line_without_the_text(arguments: list[str], command: Command) -> None:
    done = command("--model", "dummy", "--tasks", TASK, *arguments)
    option = arguments[0].partition("=")[0]
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith(f"ragtasks: {option} is not JSON: ")
    assert SECRET not in done.err
    assert "Traceback" not in done.err


def test_the_debug_level_logs_the_traceback(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "lm_eval")
    arguments = ("--model", "dummy", "--tasks", TASK, "--fewshot_as_multiturn", "true")
    command(*arguments)
    assert "Traceback" not in caplog.text
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMEVAL_LOG_LEVEL", "DEBUG")
        command(*arguments)
    assert "Traceback" in caplog.text


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Oracle, "generate_until", refuse)
    with pytest.raises(ValueError, match="a bug"):
        run_harness(["--model", "ragtasks-oracle", "--tasks", TASK, "--metadata", METADATA])


def test_unused_metadata_is_reported_once(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    done = command(
        "--model", "dummy", "--tasks", "mtrag_reference", "--limit", "1", "--model_args", "revision=main",
        metadata={"judging": "strict", "revision": "main", "run": "closed_book"},
    )  # fmt: skip
    assert done.status == 0, done.err
    warnings = [message for message in caplog.messages if "does not use" in message]
    assert len(warnings) == 1
    assert "does not use 'judging', only " in warnings[0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--no_such_flag"], ConfigurationError),
        (["--model", "no-such-model", "--tasks", TASK], ConfigurationError),
        (["--model", "dummy", "--tasks", TASK, "--seed", "0,1"], SystemExit),
        (["--model", "ragtasks-oracle", "--tasks", TASK, "--metadata", '{"data": "/nowhere"}'], RagtasksError),
    ],
)
def test_the_process_is_unchanged_after_an_error(arguments: list[str], error: type[BaseException]) -> None:
    with pytest.raises(error):
        run_harness(arguments)


def test_the_harness_receives_our_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "--some", "option"])
    run_harness(["--model", "ragtasks-oracle", "--tasks", TASK, "--limit", "1", "--metadata", METADATA])
    assert sys.argv == ["pytest", "--some", "option"]
    monkeypatch.undo()


def test_an_argument_of_the_model_precedes_the_harness_option(
    command: Command, tiny_model: Callable[[str], Path]
) -> None:
    """The harness passes `--device`, which has a default, as well."""
    arguments = f"pretrained={tiny_model(CHATML)},device=cpu,batch_size=2"
    options = ("--limit", "1", "--gen_kwargs", "max_gen_toks=1")
    done = command("--model", "hf", "--model_args", arguments, "--tasks", TASK, *options)
    assert (done.status, done.err.count("Traceback")) == (0, 0), done.err


def test_damaged_weights_are_one_line(command: Command, tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    """Libraries of file formats have their own classes of errors."""
    folder = shutil.copytree(tiny_model(CHATML), tmp_path / "damaged")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    arguments = f"pretrained={folder}"
    done = command("--model", "hf", "--model_args", arguments, "--tasks", TASK, "--limit", "1")
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith("ragtasks: --model hf cannot be loaded (check --model_args): Error")
    assert "Traceback" not in done.err
