"""Project files agree with the code: one gate, one version, requirements that include the tested versions."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragtasks

ROOT = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("_constraints", ROOT / "scripts" / "constraints.py")
constraints = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(constraints)


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def recipe(target: str) -> tuple[list[str], list[str]]:
    """Return the prerequisites and commands of a target in the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:(.*)\n((?:\t.*\n)*)", text, re.MULTILINE)
    assert found, f"the Makefile has no target {target}"
    return found[1].split(), [line.strip() for line in found[2].splitlines()]


def test_hook_and_test_target_run_the_same_checks() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    (hook,) = repository["hooks"]
    assert (repository["repo"], hook["entry"], hook["pass_filenames"]) == ("local", "make lint", False)
    assert recipe("lint")[1] == ["$(BIN)/ruff check .", "$(BIN)/ruff format --check .", "$(BIN)/mypy"]
    assert {"lint", "default-test"} <= set(recipe("test")[0])
    (command,) = recipe("default-test")[1]
    assert "$(BIN)/pytest" in command.split()


def test_the_workflow_runs_exactly_the_gate() -> None:
    (job,) = read_yaml(".github/workflows/ci.yml")["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [command for command in commands if not command.startswith("git config ")] == ["bash .ci/run"]
    called = [line.split() for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()]
    assert {"test", "slow-test", "engine-test"} <= {word for words in called if words[:1] == ["make"] for word in words}


def test_the_citation_names_this_version_and_papers_with_authors() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == ragtasks.__version__
    assert citation["license"] == constraints.read_pyproject()["project"]["license"]
    for reference in citation["references"]:
        assert reference["title"]
        assert all(author["given-names"] and author["family-names"] for author in reference["authors"])


def test_every_marker_is_documented_for_contributors() -> None:
    declared = constraints.read_pyproject()["tool"]["pytest"]["ini_options"]["markers"]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [line for line in declared if f"| `{line.partition(':')[0]}` |" not in text] == []


def test_only_kills_has_markers_that_a_test_file_does_not_name() -> None:
    """Otherwise tests/conftest.py would skip the file when its marker is selected."""
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    own = re.compile(r"pytest\.mark\.(?!parametrize\b|skipif\b)(\w+)")
    found = {path.name: set(own.findall(path.read_text(encoding="utf-8"))) for path in helpers}
    assert {name: markers for name, markers in found.items() if markers} == {"_shared.py": {"engine", "long"}}


def test_a_release_lists_each_change_once_by_group() -> None:
    releases = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for release in releases:
        assert release.split("\n\n")[1].startswith("### "), "a line of the changelog belongs to one of its groups"
        groups = re.findall(r"^### .*$", release, re.MULTILINE)
        assert len(set(groups)) == len(groups)


def test_the_source_distribution_has_all_that_is_tracked() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = {*config["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml", ".gitignore"}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    assert {path.partition("/")[0] for path in listed.stdout.splitlines()} == included


def pinned() -> dict[str, str]:
    """Return name -> version of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_tested_versions_satisfy_the_requirements() -> None:
    asked = constraints.requirements(constraints.read_pyproject())
    versions = pinned()
    assert versions.keys() <= {canonicalize_name(item.name) for item in asked}, "run scripts/constraints.py"
    outside = [
        f"{item}, pinned to {version}"
        for item in asked
        if (version := versions.get(canonicalize_name(item.name))) and not item.specifier.contains(version)
    ]
    assert not outside, "run scripts/constraints.py after the tests have passed"


def test_all_that_the_tests_need_has_a_tested_version() -> None:
    """A requirement of an exact version is its own constraint."""
    project = constraints.read_pyproject()["project"]
    extras = project["optional-dependencies"]
    (own,) = (item for line in extras["dev"] if (item := Requirement(line)).name == project["name"])
    lines = [*project["dependencies"], *extras["dev"], *(line for name in own.extras for line in extras[name])]
    ranges = [item for line in lines if "==" not in line and (item := Requirement(line)).name != own.name]
    here = {canonicalize_name(item.name) for item in ranges if not item.marker or item.marker.evaluate()}
    assert not here - pinned().keys(), "run scripts/constraints.py in an environment with the extra dev"
