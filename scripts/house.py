"""Counts the house: lines, modules, rooms, arrows between them, and the way from a task's YAML to its number.

    python scripts/house.py                # the counts of this checkout, as a table
    python scripts/house.py --walk         # also the files that one evaluation of the sample calls a function of
    python scripts/house.py --list NAME    # what stands behind one count: rooms, arrows, faces, tests, walk

A room is a folder or a module right below `ragtasks/`, and `retrieval_cache` as a whole. An arrow is an import, of
whatever kind, from one room to another; one that a room below points at a room above it, by the layers of
`tests/test_imports.py`, goes back.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ragtasks", "retrieval_cache")
sys.path.insert(0, str(ROOT))

_PROFILED = """
import json, sys
called = set()
def note(frame, event, value):
    code = frame.f_code
    # The body of a module or class has no such flag; a comprehension that stands in one has, and is no function.
    if event != "call" or not code.co_flags & 1:
        return
    caller = frame.f_back and frame.f_back.f_code.co_name
    if code.co_name[0] != "<" or caller != "<module>":
        called.add(code.co_filename)
sys.setprofile(note)
sys.argv = ["ragtasks", *{arguments!r}]
from ragtasks.cli import main
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print(json.dumps(sorted(called)), file=sys.stderr)
"""


def name_of(path: Path) -> str:
    """Return the name that a file is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """Return the room of a module."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "ragtasks" else parts[0]


MODULES = {name_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules of ours that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES or node.module in MODULES:
                    yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def rooms() -> list[str]:
    """Return the rooms."""
    return sorted({room_of(name) for name in MODULES} - {"ragtasks"})


def arrows() -> list[str]:
    """Return the arrows between rooms, as `from -> to`."""
    found = set()
    for name, path in MODULES.items():
        found |= {f"{room_of(name)} -> {room_of(other)}" for other in imported(path)}
    return sorted(
        arrow for arrow in found if len(set(arrow.split(" -> "))) == 2 and not arrow.startswith("ragtasks ->")
    )


def arrows_back() -> list[str]:
    """Return the arrows that point at a room above."""
    from tests.test_imports import LAYERS

    pairs = [arrow.split(" -> ") for arrow in arrows()]
    return [
        f"{low} -> {high}" for low, high in pairs if low in LAYERS and high in LAYERS and LAYERS[high] > LAYERS[low] > 0
    ]


def only_their_face() -> list[str]:
    """Return the modules that nothing but the `__init__.py` of their own folder imports."""
    readers: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        for other in imported(path):
            readers[other].add(name)
    return [name for name, found in readers.items() if found == {name.rpartition(".")[0]}]


def private_imports_by_tests(*, across: bool) -> list[str]:
    """Return `file: module` for each private module that a test imports; `across`: of another room than the test's."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.module.split(".")[0] not in PACKAGES:
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if inner in MODULES else node.module
                own = f"ragtasks.{path.relative_to(ROOT / 'tests').parts[0]}"
                if "._" in f".{module}" and not (across and room_of(module) in {own, own.removeprefix("ragtasks.")}):
                    found.append(f"{path.relative_to(ROOT)}: {module}")
    return sorted(set(found))


def commands() -> list[str]:
    """Return the commands of the command line's first level."""
    import typer.main

    from ragtasks.cli import app

    return sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def walk() -> list[str]:
    """Return the files of ours with a function that runs from a harness task's YAML to its number."""
    with tempfile.TemporaryDirectory() as folder:
        metadata = json.dumps({"data": "sample", "encoder": "none"})
        arguments = ["run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", "--metadata", metadata]
        arguments += ["--output_path", folder, "--log_samples"]
        code = _PROFILED.format(arguments=arguments)
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    called = {Path(name) for name in json.loads(done.stderr.strip().splitlines()[-1]) if name.startswith(str(ROOT))}
    return sorted(str(path.relative_to(ROOT)) for path in called & set(MODULES.values()))


def lines(paths: list[Path]) -> int:
    """Return how many lines files have."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--walk", action="store_true")
    parser.add_argument("--list", choices=["rooms", "arrows", "back", "faces", "tests", "walk", "commands"])
    asked = parser.parse_args()
    lists = {
        "rooms": rooms,
        "arrows": arrows,
        "back": arrows_back,
        "faces": only_their_face,
        "tests": lambda: private_imports_by_tests(across=True),
        "walk": walk,
        "commands": commands,
    }
    if asked.list:
        print("\n".join(lists[asked.list]()))
        return
    sizes = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES.values())
    print(f"production lines, modules            {sum(sizes):,} in {len(sizes)} (median {sizes[len(sizes) // 2]})")
    print(f"rooms, arrows, arrows back           {len(rooms())}, {len(arrows())}, {len(arrows_back())}")
    print(f"modules that only their face imports {len(only_their_face())}")
    print(f"private imports by tests             {len(private_imports_by_tests(across=False))}, ", end="")
    print(f"across folders {len(private_imports_by_tests(across=True))}")
    print(f"top-level commands                   {len(commands())}")
    if asked.walk:
        found = walk()
        print(
            f"YAML to number                       {len(found)} files, {lines([ROOT / name for name in found]):,} lines"
        )


if __name__ == "__main__":
    main()
