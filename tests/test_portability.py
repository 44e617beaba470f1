"""Every module can be imported on every system: system-specific code is behind a check or in functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("ragtasks", "retrieval_cache", "scripts")
ONE_SYSTEM = {"fcntl", "grp", "msvcrt", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "winreg"}
"""Modules of the standard library that are missing on some systems."""
POSIX_NAMES = {
    "os": {"O_DIRECTORY", "O_NOFOLLOW", "fork", "getloadavg", "getuid", "killpg", "mkfifo", "nice", "setsid", "uname"},
    "signal": {"ITIMER_REAL", "SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "alarm", "setitimer"},
    "select": {"epoll", "kqueue", "poll"},
    "socket": {"AF_UNIX", "SO_REUSEPORT"},
}
"""Module -> names available only on POSIX."""
ONE_SYSTEM_NAMES = {f"{module}.{name}" for module, names in POSIX_NAMES.items() for name in names}
LAST_NAMES = {name.rpartition(".")[2] for name in ONE_SYSTEM_NAMES}


def at_import(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes executed at import, except behind a check (`if`, `try`) and in functions."""
    for node in nodes:
        if isinstance(node, (ast.If, ast.Try, ast.Lambda)):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            defaults = [item for item in (*node.args.defaults, *node.args.kw_defaults) if item]
            yield from at_import([*node.decorator_list, *defaults])
            continue
        yield node
        yield from at_import(ast.iter_child_nodes(node))


def needs_of(source: str) -> set[str]:
    """Return system-specific names that a module needs at import."""
    found: set[str] = set()
    for node in at_import(ast.parse(source).body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & ONE_SYSTEM
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= ({str(node.module)} & ONE_SYSTEM) | (names & ONE_SYSTEM_NAMES)
        elif isinstance(node, ast.Attribute) and node.attr in LAST_NAMES:  # few nodes, because unparsing all is slow
            found |= {ast.unparse(node)} & ONE_SYSTEM_NAMES
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_imports_on_every_system(folder: str) -> None:
    needed = {path: needs_of(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py")}
    assert {path: needs for path, needs in needed.items() if needs} == {}


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("import os, fcntl", {"fcntl"}),
        ("from resource import getrlimit", {"resource"}),
        ("from signal import SIGKILL", {"signal.SIGKILL"}),
        ("import os\nclass Lock:\n    flags = os.O_NOFOLLOW", {"os.O_NOFOLLOW"}),
        ("import os\ndef ask(user=os.getuid()): ...", {"os.getuid"}),
        ("import sys\nif sys.platform != 'win32':\n    import fcntl", set()),
        ("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None", set()),
        ("def limit():\n    import resource", set()),
    ],
)
def test_the_check_detects_system_specific_imports(source: str, needs: set[str]) -> None:
    assert needs_of(source) == needs
