"""Keys of an evaluation's configuration as options: one declaration for all commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ragtasks.cli import app
from ragtasks.config import KEYS, EvaluationConfig
from tests._commands import run_command

ROOT: Any = typer.main.get_command(app)
ANSWERS = ["score", "answers.jsonl", "--benchmark", "mtrag"]
SAVED = ["score", "results", "--output", "again"]
Taken = Callable[..., tuple[list[str], dict[str, Any]]]


def command_named(words: str) -> Any:
    """Return a command, or a command of a group for two words."""
    found = ROOT
    for word in words.split():
        found = found.commands[word]
    return found


def commands(group: Any = ROOT) -> Iterator[Any]:
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else [command]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Taken:
    """Return the arguments for the harness and the options of the evaluation in a command line."""
    found: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.jsonl").touch()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results_1.json").touch()

    def run_harness(arguments: list[str], options: dict[str, Any], _: Any) -> None:
        found.append((arguments, options))

    def stop(*given: Any, **_: Any) -> None:
        found.append(([], next(one for one in given if isinstance(one, dict))))
        raise SystemExit

    monkeypatch.setattr("ragtasks.harness.run.run_harness", run_harness)
    monkeypatch.setattr("ragtasks.cli.look_ahead.require", lambda *_, **__: [])
    for name in ("ragtasks.scoring.rescore", "ragtasks.scoring.system_to_score", "ragtasks.harness.planning.plan"):
        monkeypatch.setattr(name, stop)

    def line(*arguments: str) -> tuple[list[str], dict[str, Any]]:
        run_command(*arguments)
        return found.pop()

    return line


def test_an_option_of_the_configuration_has_one_description_in_all_commands() -> None:
    for name in ("run", "score"):
        offered = {option.name: option for option in ROOT.commands[name].params}
        assert KEYS & offered.keys() == {"data", "run", "judges", "encoder", "metrics"}
        for key in KEYS & offered.keys():
            assert str(EvaluationConfig.model_fields[key].description)[1:] in offered[key].help
    others = [p for command in commands() for p in command.params if "--data" in p.opts and "`sample`" in p.help]
    assert len(others) > 15
    assert {option.help for option in others} == {offered["data"].help}


@pytest.mark.parametrize("command", ["score", "tasks export"])
def test_a_narrow_terminal_cuts_no_name_of_an_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run_command(*command.split(), "--help-all")
    text = done.out
    assert [name for option in command_named(command).params for name in option.opts if name not in text] == []


@pytest.mark.parametrize(
    ("given", "rest", "options"),
    [
        (["--data", "sample", "--tasks", "a", "b"], ["--tasks", "a", "b"], {"data": "sample"}),
        (["--judge", "openai/x", "--judge", '{"model": "y"}'], [], {"judges": ["openai/x", {"model": "y"}]}),
        (["--output", "here", "--encoder", "none"], ["--output_path", "here"], {"encoder": "none"}),
        (["--output=here", "--model_args", "data=1"], ["--output_path=here", "--model_args", "data=1"], {}),
        (["-t", "a", "--run", "2024", "-L5", "--seed", "-1"], ["-t", "a", "-L5", "--seed", "-1"], {"run": "2024"}),
        (["--metadata", '{"data": "x"}'], ["--metadata", '{"data": "x"}'], {}),
    ],
)
def test_run_removes_its_own_keys_from_the_arguments_for_the_harness(
    taken: Taken, given: list[str], rest: list[str], options: dict[str, Any]
) -> None:
    assert taken("run", *given) == (rest, options)


@pytest.mark.parametrize("command", [ANSWERS, SAVED], ids=lambda words: words[0])
def test_an_option_overrides_the_same_key_of_the_metadata(taken: Taken, command: list[str]) -> None:
    metadata = '{"data": "there", "run": "mine", "judges": ["openai/y"]}'
    given = ["--data", "here", "--judge", "openai/x", "--judge", '{"model": "openai/z"}']
    pairs = ["min_judge_coverage=0.5", "conversational=false", "idk=ngrams", "price=[1, 2]", "anchors=40"]
    more = [part for pair in pairs for part in ("--metadata", pair)]
    _, options = taken(*command, "--metadata", metadata, *more, *given)
    assert options == {
        "data": "here",
        "run": "mine",
        "judges": ["openai/x", {"model": "openai/z"}],
        "min_judge_coverage": 0.5,
        "conversational": False,
        "idk": "ngrams",
        "price": [1, 2],
        "anchors": 40,
    }


@pytest.mark.parametrize("command", [ANSWERS, SAVED], ids=lambda words: words[0])
@pytest.mark.parametrize("metadata", ["{", "[]", "=x", "judges"])
def test_metadata_must_be_pairs_or_an_object(command: list[str], metadata: str) -> None:
    done = run_command(*command, "--metadata", metadata)
    assert done.status == 1
    assert re.match("ragtasks: --metadata (is neither|must be|'.*': expected KEY=VALUE)", done.err)


@pytest.mark.parametrize("key", sorted(KEYS - {"data", "run", "judges", "encoder", "metrics"}))
def test_every_other_key_is_set_by_metadata_only(key: str) -> None:
    option = f"--{key.replace('_', '-')}"
    assert run_command(*ANSWERS, option, "1").status == 2
    done = run_command("run", "--model", "dummy", "--tasks", "mtrag", option, "1")
    assert done.status == 2
    assert f"no option {option}. Next step: --metadata {key}=VALUE" in done.err


def test_options_have_hyphens_and_no_underscores() -> None:
    names = {name for command in commands() for option in command.params for name in option.opts}
    assert not {name for name in names if name.startswith("-") and "_" in name}
