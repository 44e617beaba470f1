"""Output of `ragtasks run`, with and without `-v`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import lm_eval.tasks
import pytest

from ragtasks.harness._run_output import split_verbose
from ragtasks.harness.tasks import task_folder
from tests._commands import CommandResult
from tests.harness._endpoint import Endpoint

Command = Callable[..., CommandResult]
UNSCORED = (
    "without any value, so not in the tables: balanced_ans_acc, bert_k_precision, bert_precision, bert_recall, "
    "declined, rb_alg, rb_alg_ibm, rb_alg_raw"
)
TWO_TASKS = ("--tasks", "mtrag_reference_fiqa,mtrag_reference_govt", "--limit", "1")


def stages(done: CommandResult) -> list[str]:
    """Return the output without warnings and the progress bar of a server."""
    assert done.status == 0, done.err
    return [line for line in done.err.splitlines() if line and " WARNING " not in line and "Requesting API" not in line]


@pytest.fixture(autouse=True)
def _harness_log_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the harness's log in this process as in a separate one, ignoring the environment."""
    monkeypatch.delenv("LMEVAL_LOG_LEVEL", raising=False)
    logger = logging.getLogger("lm_eval")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr("lm_eval.utils._LOGGING_CONFIGURED", False)


def test_a_baseline_prints_one_line_per_stage(command: Command) -> None:
    done = command("--model", "ragtasks-oracle", *TWO_TASKS)
    assert stages(done) == ["ragtasks-oracle is ready; building the prompts", "scoring 2 answers of 2 tasks", UNSCORED]


def test_useless_warnings_are_printed_only_with_v(command: Command, endpoint: Endpoint) -> None:
    arguments = ("--model_args", f"base_url={endpoint.chat_url},model=loopback", "--gen_kwargs", "max_gen_toks=9")
    line = ("--model", "local-chat-completions", *arguments, "--apply_chat_template", *TWO_TASKS)
    done = command(*line)
    assert done.status == 0, done.err
    assert "EOS string" not in done.err
    assert "--limit" not in done.err
    assert "generation_kwargs" not in done.err
    assert "SHOULD ONLY BE USED FOR TESTING" in command(*line, "-v").err


def test_server_requests_have_one_progress_bar(command: Command, endpoint: Endpoint) -> None:
    arguments = f"base_url={endpoint.chat_url},model=loopback,eos_string=</s>"
    done = command("--model", "local-chat-completions", "--model_args", arguments, "--apply_chat_template", *TWO_TASKS)
    ready, asking, bar, *scoring = stages(done)
    assert [ready, asking] == ["loopback is ready; building the prompts", "requesting 2 answers"]
    assert bar.startswith("loopback  2/2")
    assert scoring == [
        "scoring 2 answers of 2 tasks",
        UNSCORED,
    ]


@pytest.mark.parametrize("verbose", [("-v",), ("-v", "DEBUG"), ("--verbosity", "INFO")])
def test_the_harness_log_is_restored(verbose: tuple[str, ...], command: Command) -> None:
    done = command("--model", "ragtasks-oracle", *verbose, *TWO_TASKS)
    assert done.status == 0, done.err
    assert "Building contexts for mtrag_reference_fiqa on rank 0..." in done.err
    assert "Running generate_until requests" in done.err


def test_a_bare_v_is_removed_and_a_level_is_kept() -> None:
    assert split_verbose(["-v", "--tasks", "a"]) == (["--tasks", "a"], True)
    assert split_verbose(["--tasks", "a", "-v"]) == (["--tasks", "a"], True)
    assert split_verbose(["-v", "debug", "--tasks", "a"]) == (["-v", "debug", "--tasks", "a"], True)
    assert split_verbose(["--tasks", "a"]) == (["--tasks", "a"], False)


def test_stub_name_clashes_are_not_reported_and_users_tasks_are(command: Command, tmp_path: Path) -> None:
    base = next(task_folder().rglob("mtrag_reference_fiqa.yaml"))
    (tmp_path / "mine.yaml").write_text(f"include: {base}\ntask: mtrag_reference_fiqa\n")
    done = command("--model", "ragtasks-oracle", *TWO_TASKS, "--include_path", str(tmp_path))
    assert "overrides existing task" in done.err
    index = logging.getLogger("lm_eval.tasks._index")
    stub = Path(lm_eval.tasks.__file__).parent / "ragtasks" / "a.yaml"
    from ragtasks.harness._run_output import report_stages

    with report_stages(verbose=False):
        warnings = [
            index.filter(index.makeRecord(index.name, logging.WARNING, "", 0, "%s %s %s", arguments, None))
            for arguments in (("a", base, stub), ("a", stub, base), ("a", base, tmp_path))
        ]
    assert [bool(warned) for warned in warnings] == [False, False, True]


def test_metrics_without_values_are_listed_on_one_line(command: Command) -> None:
    done = command("--model", "ragtasks-oracle", *TWO_TASKS)
    assert done.err.splitlines().count(UNSCORED) == 1
    assert "nan" not in done.out
    assert "|rouge_l" in done.out
