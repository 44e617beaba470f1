"""Lookup of objects by name: built-in objects, entry points of packages, and clear errors for invalid objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.harness.tasks import task_folders
from ragtasks.plugins import ExtensionPoint, is_import_path
from tests._commands import run_command

Install = Callable[..., None]

POINT = ExtensionPoint("ragtasks.tests", "number", int, {"ours": "string:digits", "one": "sys:maxsize"})


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs packages with entry points: (package, name -> value)."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(package: str, entries: dict[str, str], group: str = POINT.group) -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")

    return put


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a module of another package."""

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


def test_extensions_of_packages_are_found_by_name(install: Install, module: Callable[[str, str], None]) -> None:
    module("far_away", "seven = 7")
    install("far-away", {"seven": "far_away:seven"})
    assert POINT.get("seven") == 7
    assert POINT.names() == ["one", "ours", "seven"]
    assert POINT.plugin_names() == ["seven"]


def test_built_in_names_take_precedence(install: Install) -> None:
    install("impostor", {"one": "no_such_module:thing"})
    assert POINT.get("one") == sys.maxsize
    assert POINT.plugin_names() == []


def test_a_broken_package_fails_only_when_used(install: Install, module: Callable[[str, str], None]) -> None:
    module("broken_one", "raise ZeroDivisionError('at import')")
    install("broken-one", {"bad": "broken_one:x", "gone": "no_such_module:x", "lacks": "string:no_such_thing"})
    assert POINT.get("one") == sys.maxsize
    assert {"bad", "gone"} <= set(POINT.names())
    for name, reported in (("bad", "ZeroDivisionError: at import"), ("gone", "ModuleNotFound"), ("lacks", "Attribute")):
        with pytest.raises(ConfigurationError) as caught:
            POINT.get(name)
        assert f"number {name!r}: package broken-one (" in str(caught.value)
        assert f"found: {reported}" in str(caught.value)
        assert "next step: " in str(caught.value)


def test_benchmarks_of_packages_are_listed_with_ours_and_a_broken_one_is_named(
    install: Install, module: Callable[[str, str], None]
) -> None:
    source = "Source('theirs', 'theirs', 'x', '', '', '', (SourceFile('x', None, 2_000_000, 'tasks'),))"
    imports = "from ragtasks.benchmarks import BenchmarkDefinition\nfrom ragtasks.benchmarks.sources import"
    module("their_files", f"{imports} Source, SourceFile\nDEFINITION = BenchmarkDefinition({source}, open)\n")
    install("theirs", {"theirs": "their_files:DEFINITION", "bad": "no_such_module:x"}, "ragtasks.benchmarks")
    done = run_command("data", "fetch")
    assert done.status == 0
    listed = [line.replace(" ", "") for line in done.out.splitlines()]
    assert {"|mtrag|tasks|20|-|", "|theirs|tasks|1|2.0|"} <= set(listed)
    assert "benchmark 'bad': package theirs (no_such_module:x)" in done.out


def test_an_object_of_another_type_is_rejected(install: Install) -> None:
    install("wrong-kind", {"text": "string:digits"})
    with pytest.raises(ConfigurationError, match=r"expected: an object of the kind int\n  found: str"):
        POINT.get("text")
    with pytest.raises(ConfigurationError, match="found: str"):
        POINT.get("ours")


def test_two_packages_with_one_name_are_both_named(install: Install) -> None:
    install("first", {"twice": "string:digits"})
    install("second", {"twice": "string:hexdigits"})
    with pytest.raises(ConfigurationError, match=r"package first \(string:digits\), package second"):
        POINT.get("twice")


def test_results_of_packages_have_the_declared_type(install: Install, module: Callable[[str, str], None]) -> None:
    point = ExtensionPoint("ragtasks.tests", "maker", object, {"ours": "builtins:int"})
    module("makers", "def good(): return 7\ndef bad(): return 'seven'\ndef raising(): raise KeyError('x')")
    install("makers", {name: f"makers:{name}" for name in ("good", "bad", "raising")})

    def made(name: str) -> int:
        return point.build(name, int, lambda make: make())  # type: ignore[operator]

    assert (made("good"), made("ours")) == (7, 0)
    for name, reported in (("bad", "str"), ("raising", "KeyError: 'x'")):
        with pytest.raises(ConfigurationError) as caught:
            made(name)
        assert f"maker {name!r}: package makers (makers:{name}), group ragtasks.tests" in str(caught.value)
        assert f"expected: an object of the kind int\n  found: {reported}" in str(caught.value)
    assert "makers:good" in str(point.refusal("good", "more", "less"))


def test_an_unknown_name_gets_close_matches() -> None:
    with pytest.raises(ConfigurationError, match="unknown number 'onne': did you mean 'one'"):
        POINT.get("onne")


def test_an_import_path_is_accepted_only_from_the_user() -> None:
    point = ExtensionPoint("ragtasks.tests", "number", int, {}, by_import_path=True)
    assert point.get("sys:maxsize") == sys.maxsize
    with pytest.raises(ConfigurationError, match="found: AttributeError"):
        point.get("sys:minsize")
    with pytest.raises(ConfigurationError, match="unknown number"):
        POINT.get("sys:maxsize")
    assert is_import_path("os.path:join")
    assert not any(map(is_import_path, ("no_such_module:x", "sys", "dense:a/b", "http://x", "sys:", ":x")))


def test_folders_of_tasks_are_found_without_an_import(
    tmp_path: Path, install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "task_package"
    (package / "yamls").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    install("a", {"mine": "task_package.yamls", "no": "task_package.gone", "none": "no_such.x"}, group="ragtasks.tasks")
    assert [entry for entry in task_folders() if entry[0] in {"mine", "no", "none"}] == [("mine", package / "yamls")]


def test_a_broken_command_of_a_package_is_reported_and_all_others_work(
    install: Install, module: Callable[[str, str], None]
) -> None:
    module("raising", "raise ZeroDivisionError('at import')")
    module("exiting", "raise SystemExit(7)")
    module(
        "badly_typed",
        "import typer\nrefused = typer.Typer()\n\n@refused.command()\ndef show(x: 'Undefined' = 1): ...\n\n"
        "works = typer.Typer()\n\n@works.command()\ndef work(): print('it works')\n",
    )
    broken = {
        "raises": "raising:app",
        "exits": "exiting:app",
        "refused": "badly_typed:refused",
        "text": "string:digits",
    }
    working = {"works": "badly_typed:works", "twice": "badly_typed:works", "report": "raising:app"}
    install("one", {**broken, **working}, "ragtasks.commands")
    install("other", {"twice": "badly_typed:refused"}, "ragtasks.commands")
    listed = run_command("--help")
    assert listed.status == 0
    for name in ("works", "report", "gate"):
        assert f"│ {name} " in listed.out
    for name in (*broken, "twice"):
        assert f"│ {name} " not in listed.out
        assert f"ragtasks: left out: command {name!r}: " in listed.err
        done = run_command(name)
        assert done.status == 1
        assert f"ragtasks: command {name!r}: " in done.err
        assert "next step: " in done.err
    assert run_command("works").out == "it works\n"
    assert run_command("report", "--help").status == 0, "our own name wins"
