"""Every command in README, docs and changelog exists, with all its options."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from lm_eval._cli import HarnessCLI

from ragtasks.cli import app
from tests.documents._lines import DOCUMENTS, ROOT, commands, shown

MORE = [ROOT / "CHANGELOG.md", *sorted((ROOT / "examples" / "more_benchmarks").rglob("README.md"))]
"""The changelog, and extras of a package that adds no command."""


def options_of(words: list[str]) -> set[str]:
    """Return the options of a command. An unknown command is an error."""
    program, *rest = words
    if program == "lm_eval" or rest[0] == "run":
        own = _own_options() if rest[:1] == ["run"] else set()
        return _harness_options() | own | {"-v", "--help-all"}
    command = _root()
    known = {option for parameter in command.params for option in parameter.opts}
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"no command {' '.join(words)}"
        command = command.commands[rest.pop(0)]
        known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)}
    return known | {"--help", "--help-all", "-h"}


@cache
def _root() -> Any:
    return typer.main.get_command(app)


@cache
def _harness_options() -> set[str]:
    (commands,) = (a for a in HarnessCLI()._parser._actions if isinstance(a, argparse._SubParsersAction))
    return {option for parser in commands.choices.values() for a in parser._actions for option in a.option_strings}


def _own_options() -> set[str]:
    """Return the options added by `ragtasks run`: keys of the configuration, output and submissions."""
    params = _root().commands["run"].params
    names = {name for option in params for name in (*option.opts, *option.secondary_opts)}
    return names | {f"--{option.name}" for option in params} | {"--output", "--for-submission"}


@pytest.mark.parametrize("document", [*DOCUMENTS, *MORE], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_of_every_command_exists(document: Path) -> None:
    unknown = []
    for words in shown(document):
        given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        if len(words) > 1 and given - options_of(words):
            unknown.append((" ".join(words), sorted(given - options_of(words))))
    assert not unknown


@pytest.mark.parametrize("document", [*DOCUMENTS, *MORE], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_installs_from_an_index(document: Path) -> None:
    lines = re.findall(r"pip install [^`\n]*?['\" ]ragtasks(?!-)[^`\n]*", document.read_text(encoding="utf-8"))
    added_to_the_installed = ["pip install 'ragtasks[report]'"] if document.name == "install.md" else []
    assert lines == added_to_the_installed


def test_the_check_finds_unused_names() -> None:
    assert list(commands("ragtasks report results --html page.html  # a page")) == [
        ["ragtasks", "report", "results", "--html", "page.html"]
    ]
    (words,) = commands("python x & ragtasks score --name X; kill $!")
    assert words == ["ragtasks", "score", "--name", "X"]
    assert "--nope" not in options_of(["ragtasks", "report"])
    with pytest.raises(AssertionError, match="no command"):
        options_of(["ragtasks", "fletch"])
