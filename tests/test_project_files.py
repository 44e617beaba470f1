"""Project files agree with the code: one gate, one version, requirements that include the tested versions."""

from __future__ import annotations

import datetime
import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragtasks

ROOT = Path(__file__).resolve().parents[1]


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"_{name}", ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


constraints = script("constraints")


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
    (command,) = recipe("test")[1]
    assert {"$(MAKE)", "lint", "default-test"} <= set(command.split())
    (command,) = recipe("default-test")[1]
    assert "$(BIN)/pytest" in command.split()


def workflow_job(name: str) -> dict[str, Any]:
    jobs: dict[str, dict[str, Any]] = read_yaml(".github/workflows/ci.yml")["jobs"]
    return jobs[name]


def test_the_workflow_tests_every_supported_python_on_every_system() -> None:
    matrix = workflow_job("systems")["strategy"]["matrix"]
    project = constraints.read_pyproject()["project"]
    versions = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert matrix["python"] == versions
    assert project["requires-python"] == f">={versions[0]}"
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_workflow_tests_the_lowest_requirements_and_the_oldest_harness() -> None:
    rows = workflow_job("requirements")["strategy"]["matrix"]["include"]
    project = constraints.read_pyproject()["project"]
    (harness,) = (item for line in project["dependencies"] if (item := Requirement(line)).name == "lm-eval")
    (oldest,) = (limit.version for limit in harness.specifier if limit.operator == ">=")
    commands = {row["command"]: row["python"] for row in rows}
    assert commands.keys() == {"make lowest-test", f"make harness-test HARNESS={oldest}"}
    assert project["requires-python"] == f">={commands['make lowest-test']}"


def test_the_workflow_calls_scripts_that_exist() -> None:
    commands = [step["run"] for step in workflow_job("systems")["steps"] if "run" in step]
    scripts = [word for command in commands for word in command.split() if word.startswith("scripts/")]
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)


def test_the_workflow_runs_exactly_the_gate() -> None:
    commands = [step["run"] for step in workflow_job("gate")["steps"] if "run" in step]
    assert [command for command in commands if not command.startswith("git config ")] == ["bash .ci/run"]
    called = [line.split() for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()]
    assert {"test", "slow-test", "engine-test"} <= {word for words in called if words[:1] == ["make"] for word in words}


def test_the_citation_names_this_version_and_papers_with_authors() -> None:
    citation = read_yaml("CITATION.cff")
    project = constraints.read_pyproject()["project"]
    assert citation["version"] == ragtasks.__version__
    assert (citation["license"], citation["keywords"]) == (project["license"], project["keywords"])
    for reference in citation["references"]:
        assert reference["title"]
        assert reference["year"]
        assert all(author["given-names"] and author["family-names"] for author in reference["authors"])


def test_the_citation_has_the_paper_of_every_benchmark() -> None:
    cited = {reference["title"].lower() for reference in read_yaml("CITATION.cff")["references"]}
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "task_yamls").glob("*/README.md")]
    papers = {title.lower() for page in pages for title in re.findall(r"^Title: `([^`]+)`", page, re.MULTILINE)}
    assert len(papers) >= 8
    assert papers <= cited


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


SECTIONS = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")


def test_each_section_of_the_changelog_is_one_page_of_groups() -> None:
    """Also of unreleased changes: what the next release does, not each step of its development."""
    for section in SECTIONS:
        lines = section.splitlines()
        assert len(lines) <= 90, f"{lines[0]}: shorten it to one page"
        assert [line for line in lines if len(line) > 120] == []
        beginning, *groups = section.split("\n### ")
        assert "\n- " not in beginning, f"{lines[0]}: each change belongs to a group"
        names = [group.partition("\n")[0] for group in groups]
        assert len(set(names)) == len(names)


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    headings = [section.partition("\n")[0] for section in SECTIONS[1:]]
    releases = [heading.split(" - ") for heading in headings if heading != "Unreleased"]
    assert headings[1:].count("Unreleased") == 0, "unreleased changes come first"
    dates = [datetime.date.fromisoformat(date) for _, date in releases]
    assert dates == sorted(dates, reverse=True)
    assert releases[0][0] == ragtasks.__version__
    assert read_yaml("CITATION.cff")["date-released"] == dates[0]


FORMATS = {
    "stored runs": ("ragtasks/files/_runs.py", r"^_FORMAT = (\d+)"),
    "recorded checksums": ("ragtasks/benchmarks/download.py", r"^_FORMAT = (\d+)"),
    "cached replies": ("ragtasks/clients/_reply_cache.py", r"_FORMAT = 0x\w+, (\d+)"),
    "cached embeddings": ("ragtasks/metrics/semantic/_embedding_cache.py", r"^_VERSION = (\d+)"),
    "votes and reviews": ("ragtasks/arena/store.py", r"^_VERSION = (\d+)"),
    "judge cards": ("ragtasks/judges/_cards.py", r"version: Literal\[(\d+)\]"),
    "saved baselines": ("ragtasks/reports/gate_sides.py", r"ragtasks baseline (\d+)"),
    "Every Eval Ever": ("ragtasks/reports/exports.py", r'^SCHEMA_VERSION = "([\d.]+)"'),
}


def test_the_changelog_has_the_formats_that_this_version_writes() -> None:
    found = {
        name: re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)[1]
        for name, (file, pattern) in FORMATS.items()
    }
    latest = re.search(r"^- Formats: ([^:]*)\. ", "\n## ".join(SECTIONS), re.MULTILINE)[1]
    written = dict(entry.rsplit(maxsplit=1) for entry in latest.split(", "))
    assert written == found


def test_the_description_on_an_index_has_no_dead_link() -> None:
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    target = re.compile(r"\]\(([^)]+)\)")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = [path for path in target.findall(readme) if "://" not in path]
    assert len(relative) > 5
    text = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    assert [path for path in target.findall(text) if "://" not in path] == []
    assert "pip install 'ragtasks[" in text
    assert "'.[" not in text
    linked = script("index_description").described(readme, "https://example.org/ragtasks", "1.2.3")
    expected = [
        re.sub(r"^(?!https:)", "https://example.org/ragtasks/blob/v1.2.3/", path) for path in target.findall(readme)
    ]
    assert [path.replace("/raw/", "/blob/") for path in target.findall(linked)] == expected
    assert re.findall(r"!\[[^\]]*\]\(([^)]+)", linked) == [
        "https://example.org/ragtasks/raw/v1.2.3/docs/images/page.png"
    ]


def test_the_source_distribution_has_all_that_is_tracked() -> None:
    config = constraints.read_pyproject()
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


def required_by_tests() -> list[Requirement]:
    """Return the requirements of the extra `dev` here, without those of an exact version."""
    project = constraints.read_pyproject()["project"]
    extras = project["optional-dependencies"]
    (own,) = (item for line in extras["dev"] if (item := Requirement(line)).name == project["name"])
    lines = [*project["dependencies"], *extras["dev"], *(line for name in own.extras for line in extras[name])]
    ranges = [item for line in lines if "==" not in line and (item := Requirement(line)).name != own.name]
    return [item for item in ranges if not item.marker or item.marker.evaluate()]


def test_a_requirement_of_the_tests_has_one_lower_bound_everywhere() -> None:
    """`make lowest-test` installs each lower bound, so two bounds of a library exclude each other."""
    bounds = [line.partition("==")[0] for line in constraints.lowest(required_by_tests())]
    assert sorted(bounds) == sorted({canonicalize_name(item.name) for item in required_by_tests()})


def test_all_that_the_tests_need_has_a_tested_version() -> None:
    here = {canonicalize_name(item.name) for item in required_by_tests()}
    assert not here - pinned().keys(), "run scripts/constraints.py in an environment with the extra dev"
