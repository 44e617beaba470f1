from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lm_eval.api.registry import MODEL_REGISTRY

import ragtasks.harness.models
from ragtasks.errors import ConfigurationError
from ragtasks.harness.names import model_types, reject_unknown_names


def test_model_types_equal_those_of_lm_eval() -> None:
    assert ragtasks.harness.models
    assert set(model_types()) <= set(MODEL_REGISTRY)
    assert {"hf", "vllm", "dummy", "ragtasks-extractive", "ragtasks-endpoint"} <= set(model_types())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model hff --tasks mtrag", "--model hff: .*'hf'"),
        ("-M hff", "--model hff: "),
        ("--model=hff --config run.yaml --include_path mine", "--model hff: "),
        ("--tasks mtrag mtrag_fullrag", "Tasks not found: mtrag_fullrag.*'mtrag_full_rag'"),
        ("-t mtrag,mtrag_fullrag_*", r"Tasks not found: mtrag_fullrag_\*"),
        ("--tasks hella_swag", "Tasks not found: hella_swag.*'hellaswag'"),
        ("--tasks mtrag,qzqzqzqz", "Tasks not found: qzqzqzqz.*`lm_eval ls tasks`"),
    ],
)
def test_an_unknown_name_is_rejected(arguments: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        reject_unknown_names(arguments.split())


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--model",
        "--model hf --tasks mtrag,mtrag_*_rag hellaswag",
        "--tasks mmlu_stem",  # a group; its file is in a folder of includes
        "--tasks qzqzqzqz --include_path mine",
        "--tasks qzqzqzqz --config run.yaml",
        "--tasks qz*",
    ],
)
def test_names_that_may_exist_are_left_to_lm_eval(arguments: str) -> None:
    reject_unknown_names(arguments.split())


def test_a_model_that_a_script_registers_is_accepted() -> None:
    script = """
import sys
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
@register_model("my-own-kind")
class Own(LM): ...
from ragtasks.harness.names import reject_unknown_names
reject_unknown_names(["--model", "my-own-kind"])
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_path_is_not_a_misspelt_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("task: mine\n", encoding="utf-8")
    reject_unknown_names(["--tasks", str(tmp_path / "mine.yaml")])


def test_a_task_of_another_package_may_have_another_name_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harbour_tasks" / "yamls").mkdir(parents=True)
    (tmp_path / "harbour_tasks" / "__init__.py").touch()
    (tmp_path / "harbour_tasks" / "yamls" / "one.yaml").write_text("task: qzqzqzqz\n", encoding="utf-8")
    (tmp_path / "harbour_tasks-1.0.dist-info").mkdir()
    entry = "[ragtasks.tasks]\nharbour = harbour_tasks.yamls\n"
    (tmp_path / "harbour_tasks-1.0.dist-info" / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    reject_unknown_names(["--tasks", "qzqzqzqz,one"])


@pytest.mark.parametrize("option", ["--model hff --tasks mtrag", "--tasks mtrag_fullrag --model dummy"])
def test_a_misspelt_name_is_reported_without_importing_lm_eval(option: str) -> None:
    code = f"""
import sys
from ragtasks.cli import main
try:
    main(["run", *{option.split()!r}])
except SystemExit as end:
    assert end.code == 1
assert "lm_eval" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
