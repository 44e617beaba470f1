"""Commands printed as the next step of an error exist, with all required arguments."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from ragtasks.cli import app
from tests._modules import each_module, tree_of

_COMMAND = re.compile(r"`ragtasks ([^`]*)`|\bragtasks ((?:[a-z-]+ )+--?[a-z][^,;()`]*)")
_STEP = re.compile(r"(?:next step:|make (?:one|it)(?: again)? with) (.*)", re.IGNORECASE | re.DOTALL)


def text_of(node: ast.expr) -> str:
    """Return the text of a string in the source, with `X` for each placeholder."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) if isinstance(value, ast.Constant) else "X" for value in node.values)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body)} ; {text_of(node.orelse)}"
    return " ".join(text_of(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


def steps(source: str) -> Iterator[str]:
    """Yield each next step that a module can print."""
    for node in ast.walk(tree_of(source)):
        is_named = isinstance(node, ast.Assign) and "step" in ast.unparse(node.targets[0])
        if is_named or (isinstance(node, ast.keyword) and node.arg == "next_step"):
            yield text_of(node.value)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and (found := _STEP.search(text_of(node))):
            yield found[1]


@cache
def root() -> Any:
    return typer.main.get_command(app)


def problem_of(words: list[str]) -> str | None:
    """Return the error of parsing a command line, or None."""
    command, rest = root(), list(words)
    while hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            return "no such command"
        command = command.commands[rest.pop(0)]
    if command.name == "run":  # its arguments are lm_eval's
        return None
    try:
        command.make_context(command.name, rest)
    except Exception as error:  # noqa: BLE001 - typer has classes of its own for those of click
        return str(error) if type(error).__name__ in {"MissingParameter", "NoSuchOption"} else None
    return None


@each_module
def test_a_command_in_a_next_step_is_complete(path: Path) -> None:
    problems = []
    for step in steps(path.read_text(encoding="utf-8")):
        for found in _COMMAND.finditer(step):
            if why := problem_of(shlex.split(found[1] or found[2])):
                problems.append(f"{step}: {why}")
    assert not problems


def test_the_check_sees_what_is_missing() -> None:
    assert problem_of(["score"]) is not None
    assert problem_of(["score", "rows.jsonl"]) is None
    assert problem_of(["results", "nothing"]) == "no such command"
    assert list(steps("f('a', next_step=f'write {x}'); g('b. Next step: c')")) == ["write X", "c"]
