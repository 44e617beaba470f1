"""Count the lines, names, imports, commands and functions of the complete code and of its core.

    python scripts/house.py                  # the counts of this checkout, as a Markdown table
    python scripts/house.py --walk           # also the functions that one evaluation of the sample calls
    python scripts/house.py --list NAME      # the items behind one count, such as `commands`; `--core`: in the core
    python scripts/house.py --root FOLDER    # another checkout; this interpreter must have its dependencies

The core is the code without its optional parts (`OPTIONAL`). A room is a folder or module directly in `ragtasks/`, or
`retrieval_cache` as a whole. An arrow is an import of one room by another.

A leaf command is a command without subcommands. All its parameters count, hidden ones too, but not `--help` and
`--help-all`, and an option object that several commands share counts once. `run` counts the options that it declares:
it passes lm_eval's arguments on as they are, so these are not parameters of ours.

A private function is a function of a module or a method whose name begins with one underscore. Its references are the
uses of its name in its own module, and in the modules that import it; imports, strings and its own body do not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = ("ragtasks", "retrieval_cache")
OPTIONAL = (
    *("ragtasks/arena/", "ragtasks/synthesis/", "retrieval_cache/engines/"),
    *("tests/arena/", "tests/cli/test_arena.py", "tests/retrieval_cache/engines/"),
    *("tests/synthesis/", "tests/cli/test_synthesize.py", "tests/cli/test_review.py"),
    # Folders in older checkouts (`--root`).
    *("ragtasks/cli/arena.py", "ragtasks/cli/synthesis.py"),
    *("retrieval_cache/milvus.py", "retrieval_cache/ray_workers.py"),
    *("tests/retrieval_cache/test_milvus.py", "tests/retrieval_cache/test_ray_"),
    *("tests/retrieval_cache/test_encoding_line.py", "tests/retrieval_cache/retrievers/test_elser.py"),
)
"""Prefixes of the paths outside the core."""

_NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PROFILED = """
import json, sys
called = set()
def note(frame, event, value):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_name[0] != "<":  # the body of a class lacks the flag
        called.add((code.co_filename, code.co_firstlineno, code.co_name))
sys.setprofile(note)
sys.argv = ["ragtasks", *{arguments!r}]
from ragtasks.cli import main
try:
    main()
except SystemExit as end:
    if end.code:
        raise
sys.setprofile(None)
print(json.dumps(sorted(called)), file=sys.stderr)
"""


@dataclass(frozen=True)
class House:
    """The modules and test files of a checkout, or of its core."""

    root: Path
    modules: dict[str, Path]
    tests: list[Path]

    def name(self, path: Path) -> str:
        """Return a path in the checkout."""
        return path.relative_to(self.root).as_posix()


def read_house(root: Path, *, core: bool) -> House:
    """Return the house of a checkout, or of its core."""

    def files(folder: str) -> list[Path]:
        paths = sorted((root / folder).rglob("*.py"))
        return [path for path in paths if not (core and path.relative_to(root).as_posix().startswith(OPTIONAL))]

    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in files(package)
    }
    return House(root, modules, files("tests"))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def n_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def n_code_lines(path: Path) -> int:
    """Return the number of lines without docstrings, comments and blank lines."""
    code: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in _NOT_CODE:
                code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def with_sizes(house: House, paths: list[Path]) -> list[str]:
    """Return `path: lines, code lines` of files, the longest first."""
    rows = sorted(((n_lines(path), n_code_lines(path), house.name(path)) for path in paths), reverse=True)
    return [f"{name}: {lines:,} lines, {code:,} of code" for lines, code, name in rows]


def room_of(module: str) -> str:
    """Return the room of a module."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "ragtasks" else parts[0]


def imported(house: House, path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module of the house, name taken from it or "") for each import of a file, at any depth."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in house.modules:
                    yield inner, ""
                elif node.module in house.modules:
                    yield node.module, alias.name
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in house.modules)


def rooms(house: House) -> list[str]:
    """Return the rooms."""
    return sorted({room_of(name) for name in house.modules} - {"ragtasks"})


def arrows(house: House) -> list[str]:
    """Return the arrows between rooms, as `from -> to`."""
    pairs: set[tuple[str, str]] = set()
    for name, path in house.modules.items():
        pairs |= {(room_of(name), room_of(target)) for target, _ in imported(house, path)}
    return sorted(f"{source} -> {target}" for source, target in pairs if source not in {target, "ragtasks"})


def imported_only_by_init(house: House) -> list[str]:
    """Return the modules that only the `__init__.py` of their own folder imports."""
    readers: dict[str, set[str]] = {name: set() for name in house.modules}
    for name, path in house.modules.items():
        for imported_name, _ in imported(house, path):
            readers[imported_name].add(name)
    return [name for name, importers in readers.items() if importers == {name.rpartition(".")[0]}]


def classes(house: House) -> dict[str, list[str]]:
    """Return the modules of each class name, nested classes included."""
    homes: dict[str, list[str]] = {}
    for name, path in house.modules.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    return homes


def shared_class_names(house: House) -> list[str]:
    """Return `name: modules` of the class names that several modules define."""
    return sorted(f"{name}: {', '.join(homes)}" for name, homes in classes(house).items() if len(set(homes)) > 1)


def uses(node: ast.AST) -> Counter[str]:
    """Return how often each name is used in a syntax tree, as a variable or as an attribute."""
    return Counter(
        inner.id if isinstance(inner, ast.Name) else inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Name, ast.Attribute))
    )


def called_once(house: House) -> list[str]:
    """Return `path:line name` of the private functions with a single reference."""
    used = {name: uses(tree_of(path)) for name, path in house.modules.items()}
    importers: dict[tuple[str, str], list[str]] = {}
    for name, path in house.modules.items():
        for taken in set(imported(house, path)):
            importers.setdefault(taken, []).append(name)
    lines = []
    for name, path in house.modules.items():
        scopes = [node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.Module, ast.ClassDef))]
        defined = [(scope, node) for scope in scopes for node in scope.body if isinstance(node, _FUNCTIONS)]
        n_of = Counter(node.name for _, node in defined)
        for scope, node in defined:
            if not node.name.startswith("_") or node.name.startswith("__"):
                continue
            # If several classes of a module have a method of this name, a reference belongs to the enclosing class.
            own = used[name] if n_of[node.name] == 1 else uses(scope)
            elsewhere = sum(used[module][node.name] for module in importers.get((name, node.name), ()))
            if own[node.name] - uses(node)[node.name] + elsewhere == 1:
                lines.append(f"{house.name(path)}:{node.lineno} {node.name}")
    return lines


@cache
def leaf_commands() -> dict[str, Any]:
    """Return the leaf commands by the words that call them."""
    import typer.main

    from ragtasks.cli import app

    def leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
        if not getattr(command, "commands", None):
            yield " ".join(words), command
        for name, inner in getattr(command, "commands", {}).items():
            yield from leaves(inner, *words, name)

    return dict(sorted(leaves(typer.main.get_command(app))))


def commands(house: House) -> list[str]:
    """Return the leaf commands whose function is in the house."""
    return [words for words, command in leaf_commands().items() if command.callback.__module__ in house.modules]


def parameters(house: House) -> list[str]:
    """Return `command: parameter`; a parameter that commands share is listed at the first of them."""
    pairs = [(words, parameter) for words in reversed(commands(house)) for parameter in leaf_commands()[words].params]
    rows = {id(parameter): f"{words}: {max(parameter.opts, key=len)}" for words, parameter in pairs}
    return sorted(rows.values())


def private_imports_by_tests(house: House) -> list[str]:
    """Return `file: module` for each private module that a test imports."""
    pairs = {(house.name(path), module) for path in house.tests for module, _ in imported(house, path)}
    return sorted(f"{name}: {module}" for name, module in pairs if "._" in module)


@cache
def profile(root: Path) -> list[tuple[str, int, str]]:
    """Return (file, line, name) of each function that runs from a harness task's YAML to its number."""
    with tempfile.TemporaryDirectory() as folder:
        metadata = json.dumps({"data": "sample", "encoder": "none"})
        arguments = ["run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", "--metadata", metadata]
        arguments += ["--output_path", folder, "--log_samples"]
        code = _PROFILED.format(arguments=arguments)
        done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    return [tuple(row) for row in json.loads(done.stderr.strip().splitlines()[-1])]


def walked_files(house: House) -> list[Path]:
    """Return the files with such a function."""
    called = {Path(file) for file, _, _ in profile(house.root)}
    return [path for path in house.modules.values() if path in called]


def walked_functions(house: House) -> list[str]:
    """Return `path:line name` of these functions."""
    kept = set(walked_files(house))
    rows = [(Path(file), line, name) for file, line, name in profile(house.root)]
    return [f"{house.name(file)}:{line} {name}" for file, line, name in rows if file in kept]


LISTS: dict[str, tuple[str, Callable[[House], list[str]]]] = {
    "modules": ("modules", lambda house: with_sizes(house, list(house.modules.values()))),
    "rooms": ("rooms", rooms),
    "arrows": ("arrows between rooms", arrows),
    "faces": ("modules that only their own `__init__.py` imports", imported_only_by_init),
    "classes": ("class names that several modules define", shared_class_names),
    "private": ("private functions called once", called_once),
    "commands": ("leaf commands", commands),
    "parameters": ("parameters of leaf commands", parameters),
    "tests": ("files of tests", lambda house: with_sizes(house, house.tests)),
    "private-imports": ("private modules imported by tests", private_imports_by_tests),
    "walk": ("files whose functions run from YAML to number", lambda house: with_sizes(house, walked_files(house))),
    "functions": ("functions that run from YAML to number", walked_functions),
}
"""Name of a list -> (the row with its length, the list)."""


def counts(house: House, *, walk: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its count."""
    files, homes = list(house.modules.values()), list(classes(house).values())
    n_classes, n_shared = sum(map(len, homes)), sum(len(listed) for listed in homes if len(set(listed)) > 1)
    yield "production lines", f"{sum(map(n_lines, files)):,}"
    yield "production code lines (no docstrings, comments, blanks)", f"{sum(map(n_code_lines, files)):,}"
    yield "test lines", f"{sum(map(n_lines, house.tests)):,}"
    yield "test code lines", f"{sum(map(n_code_lines, house.tests)):,}"
    yield "lines of the median module", f"{sorted(map(n_lines, files))[len(files) // 2]:,}"
    yield "classes whose name several modules define", f"{n_shared} of {n_classes} ({n_shared / n_classes:.0%})"
    for name, (row, listed) in LISTS.items():
        if walk or name not in {"walk", "functions"}:
            yield row, f"{len(listed(house)):,}"
    if walk:
        yield "lines of these files", f"{sum(map(n_lines, walked_files(house))):,}"


def main() -> None:
    """Print the counts, or the items of one count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", action="store_true")
    parser.add_argument("--list", choices=list(LISTS), metavar="NAME", help=", ".join(LISTS))
    parser.add_argument("--core", action="store_true", help="with --list: only of the core")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], metavar="FOLDER")
    options = parser.parse_args()
    root = options.root.resolve()
    sys.path.insert(0, str(root))
    complete, core = read_house(root, core=False), read_house(root, core=True)
    if options.list:
        print("\n".join(LISTS[options.list][1](core if options.core else complete)))
        return
    print("| count | all | core |\n| --- | ---: | ---: |")
    for (row, of_whole), (_, of_core) in zip(
        counts(complete, walk=options.walk), counts(core, walk=options.walk), strict=True
    ):
        print(f"| {row} | {of_whole} | {of_core} |")


if __name__ == "__main__":
    main()
