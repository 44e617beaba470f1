"""Stubs in a test tasks folder: written, rejected and removed files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.harness.link import (
    MARK,
    LinkState,
    harness_tasks_folder,
    link,
    link_state,
    stub_target,
    stub_text,
    task_folder,
    unlink,
)

NOBODY = 65534
AWKWARD = "it's # a: 'folder' \"x\" {é} -- 😀 %s"


def write_tasks(folder: Path) -> Path:
    """Write two harness tasks, their group and their base; return the folder."""
    bench = folder / "bench"
    bench.mkdir(parents=True)
    (bench / "_base.yaml").write_text(
        "dataset_path: json\noutput_type: generate_until\ndoc_to_text: !function ragtasks.harness.nowhere.text\n"
    )
    for name in ("one", "two"):
        (bench / f"sample_{name}.yaml").write_text(f"include: _base.yaml\ntask: sample_{name}\n")
    (bench / "sample.yaml").write_text("group: sample\ntask:\n  - sample_one\n  - sample_two\n")
    (bench / "notes.yaml").write_text("about: neither a task nor a group\n")
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return relative path -> (mode, content, None for a folder) of all files below a folder."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / AWKWARD)


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    """A tasks folder as a wheel installs it, with the installer's record."""
    folder = tmp_path / "site" / "lm_eval" / "tasks"
    (folder / "other").mkdir(parents=True)
    (folder / "other" / "other.yaml").write_text("task: other\n")
    record = tmp_path / "site" / "lm_eval-0.4.13.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_bytes(b"lm_eval/__init__.py,sha256=abc,10\r\nlm_eval/tasks/other/other.yaml,sha256=def,12")
    record.chmod(0o640)
    return folder


def names(stubs: tuple[Path, ...]) -> list[str]:
    return [stub.stem for stub in stubs]


def test_link_writes_a_stub_for_each_task_and_group_only(harness: Path, tasks: Path) -> None:
    (tasks / "bench" / "_base_of_tasks.yaml").write_text("task: a_base\n")
    (tasks / ".ipynb_checkpoints").mkdir()
    (tasks / ".ipynb_checkpoints" / "copy.yaml").write_text("task: sample_one\n")
    report = link(harness_folder=harness, tasks=tasks)
    assert names(report.written) == ["sample", "sample_one", "sample_two"]
    assert (report.kept, report.removed) == ((), ())
    assert report.folder == harness / "ragtasks"
    stub = report.folder / "bench" / "sample_one.yaml"
    assert stub.read_text().startswith(MARK)
    assert yaml.safe_load(stub.read_text()) == {"include": str(tasks / "bench" / "sample_one.yaml")}
    assert sorted(report.folder.rglob("*.yaml")) == list(report.written)


def test_stub_permissions_follow_the_umask(harness: Path, tasks: Path) -> None:
    before = os.umask(0o022)
    try:
        report = link(harness_folder=harness, tasks=tasks)
    finally:
        os.umask(before)
    assert {stub.stat().st_mode & 0o777 for stub in report.written} == {0o644}


def test_the_harness_reads_the_same_config_through_a_stub(harness: Path, tasks: Path) -> None:
    # Read as lm_eval 0.4.13 does: the path is awkward, the base is next to the included file, and a function remains
    # a name.
    from lm_eval.tasks._index import TaskIndex
    from lm_eval.tasks._yaml_loader import load_yaml

    report = link(harness_folder=harness, tasks=tasks)
    for stub in report.written:
        original = tasks / stub.relative_to(report.folder)
        assert load_yaml(stub, resolve_func=False) == load_yaml(original, resolve_func=False)
    index = TaskIndex.build([harness])
    assert sorted(index) == ["other", "sample", "sample_one", "sample_two"]
    assert sorted(TaskIndex.build([harness, tasks])) == sorted(index)
    # Stubs with a missing target do not affect the harness.
    tasks.rename(tasks.with_name("moved"))
    assert sorted(TaskIndex.build([harness])) == ["other"]


def test_our_own_harness_tasks_are_found_through_stubs(harness: Path) -> None:
    from lm_eval.tasks._index import TaskIndex

    ours = {name: entry.cfg for name, entry in TaskIndex.build([task_folder()]).items()}
    assert "mtrag_full_rag" in ours
    report = link(harness_folder=harness)
    assert {name: entry.cfg for name, entry in TaskIndex.build([report.folder]).items()} == ours
    assert link_state(harness_folder=harness).state is LinkState.HERE


def test_a_second_link_writes_nothing(harness: Path, tasks: Path) -> None:
    first = link(harness_folder=harness, tasks=tasks)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in harness.parent.parent.rglob("*")}
    second = link(harness_folder=harness, tasks=tasks)
    assert (second.written, second.kept, second.removed) == ((), first.written, ())
    after = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in harness.parent.parent.rglob("*")}
    assert after == before


def test_link_fixes_and_removes_stale_stubs(harness: Path, tasks: Path) -> None:
    report = link(harness_folder=harness, tasks=tasks)
    (tasks / "bench" / "sample_two.yaml").rename(tasks / "sample_three.yaml")
    damaged = report.folder / "bench" / "sample_one.yaml"
    damaged.write_text(f"{MARK}\ninclude: [")
    again = link(harness_folder=harness, tasks=tasks)
    assert again.written == (damaged, report.folder / "sample_three.yaml")
    assert again.kept == (report.folder / "bench" / "sample.yaml",)
    assert again.removed == (report.folder / "bench" / "sample_two.yaml",)
    assert not again.removed[0].exists()
    assert link_state(harness_folder=harness, tasks=tasks).state is LinkState.HERE


def test_unlink_restores_the_original_state(harness: Path, tasks: Path) -> None:
    site = harness.parent.parent
    before = snapshot(site)
    written = link(harness_folder=harness, tasks=tasks).written
    assert snapshot(site) != before
    (harness / "ragtasks" / "bench" / "x.yaml.ragtasks-0-1.part").write_text("what a killed link leaves")
    report = unlink(harness_folder=harness)
    assert (report.removed, report.written, report.kept) == (written, (), ())
    assert snapshot(site) == before
    assert unlink(harness_folder=harness).removed == ()
    assert snapshot(site) == before


def test_the_installers_record_lists_the_stubs_once(harness: Path, tasks: Path) -> None:
    # Otherwise uninstalling lm_eval leaves a folder that shadows an editable lm_eval: see test_link_installs.py.
    record = next(harness.parent.parent.glob("*.dist-info/RECORD"))
    before = record.read_bytes()
    for _ in range(2):
        link(harness_folder=harness, tasks=tasks)
        rows = [f"lm_eval/tasks/ragtasks/bench/sample{x}.yaml,,\n" for x in ("", "_one", "_two")]
        assert record.read_bytes() == "".join(rows).encode() + before
    assert record.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["file", "link", "folder", "parent file", "parent link"])
def test_a_foreign_file_in_the_way_is_named_and_kept(harness: Path, tasks: Path, kind: str) -> None:
    parent = harness / "ragtasks" / "bench"
    way = parent if kind.startswith("parent") else parent / "sample_one.yaml"
    way.parent.mkdir(parents=True)
    if kind.endswith("file"):
        way.write_text("task: somebody_elses\n")
    elif kind.endswith("link"):
        way.symlink_to(tasks / "bench")
    else:
        way.mkdir()
    before = snapshot(harness)
    with pytest.raises(ConfigurationError) as refusal:
        link(harness_folder=harness, tasks=tasks)
    assert str(way) in str(refusal.value)
    assert '--include_path "$(ragtasks tasks path)"' in str(refusal.value)
    assert snapshot(harness) == before


def test_unlink_keeps_foreign_files_and_never_follows_a_link(harness: Path, tasks: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "marked.yaml").write_text(stub_text(tasks / "x.yaml"))
    report = link(harness_folder=harness, tasks=tasks)
    (report.folder / "mine.yaml").write_text("task: mine\n")
    (report.folder / "away").symlink_to(elsewhere)
    unlink(harness_folder=harness)
    assert sorted(path.name for path in report.folder.iterdir()) == ["away", "mine.yaml"]
    shutil.rmtree(report.folder)
    report.folder.symlink_to(elsewhere)
    assert unlink(harness_folder=harness).removed == ()
    assert (elsewhere / "marked.yaml").exists()


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder with a harness and tasks that this process may read but not write."""
    root = Path(tempfile.mkdtemp())
    try:
        (root / "lm_eval" / "tasks").mkdir(parents=True)
        write_tasks(root / "ours")
        link(harness_folder=root / "lm_eval" / "tasks", tasks=root / "ours")
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
            folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # root has every permission
            os.seteuid(NOBODY)
        yield root
        os.seteuid(user)
    finally:
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        shutil.rmtree(root)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_no_permission_is_one_clear_error(unprivileged: Path) -> None:
    harness, ours = unprivileged / "lm_eval" / "tasks", unprivileged / "ours"
    before = snapshot(harness)
    # Without changes to write, there is no error.
    assert len(link(harness_folder=harness, tasks=ours).kept) == 3
    with pytest.raises(ConfigurationError) as refusal:
        link(harness_folder=harness, tasks=ours / "bench")
    assert str(harness / "ragtasks") in str(refusal.value)
    assert '--include_path "$(ragtasks tasks path)"' in str(refusal.value)
    with pytest.raises(ConfigurationError, match="ragtasks tasks link --remove"):
        unlink(harness_folder=harness)
    assert snapshot(harness) == before


def test_link_state_distinguishes_four_states(harness: Path, tasks: Path, tmp_path: Path) -> None:
    def state() -> LinkState:
        return link_state(harness_folder=harness, tasks=tasks).state

    assert state() is LinkState.NOT_LINKED
    link(harness_folder=harness, tasks=tasks)
    assert state() is LinkState.HERE
    assert link_state(harness_folder=harness, tasks=tasks).targets[0] == tasks.resolve() / "bench" / "sample.yaml"
    other = write_tasks(tmp_path / "other checkout")
    link(harness_folder=harness, tasks=other)
    assert state() is LinkState.ELSEWHERE
    shutil.rmtree(other)
    assert state() is LinkState.STALE
    link(harness_folder=harness, tasks=tasks)
    (harness / "ragtasks" / "bench" / "sample.yaml").unlink()
    assert state() is LinkState.STALE
    unlink(harness_folder=harness)
    assert state() is LinkState.NOT_LINKED


def test_another_spelling_of_the_same_folder_is_linked_to_here(harness: Path, tasks: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(tasks)
    link(harness_folder=harness, tasks=alias)
    assert link_state(harness_folder=harness, tasks=tasks).state is LinkState.HERE


def test_every_broken_yaml_is_reported_and_no_file_is_written(harness: Path, tasks: Path) -> None:
    (tasks / "bench" / "sample_one.yaml").write_text("task: [")
    (tasks / "latin.yaml").write_bytes(b"task: \xe9")
    with pytest.raises(ConfigurationError, match=r"sample_one\.yaml.*latin\.yaml"):
        link(harness_folder=harness, tasks=tasks)
    assert not (harness / "ragtasks").exists()


def test_a_folder_without_harness_tasks_is_rejected_and_keeps_the_stubs(harness: Path, tasks: Path) -> None:
    written = link(harness_folder=harness, tasks=tasks).written
    shutil.rmtree(tasks / "bench")
    with pytest.raises(ConfigurationError, match="no such file"):
        link(harness_folder=harness, tasks=tasks)
    assert all(stub.exists() for stub in written)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name themselves")
def test_a_path_invalid_in_yaml_is_rejected(harness: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="UTF-8"):
        link(harness_folder=harness, tasks=write_tasks(tmp_path / os.fsdecode(b"\xff")))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
def test_a_stub_preserves_any_path(name: str) -> None:
    path = Path("/" + name)
    text = stub_text(path)
    assert stub_target(text) == path
    # lm_eval's choice of loaders, and the bytes that it passes
    for loader in (yaml.FullLoader, getattr(yaml, "CSafeLoader", yaml.FullLoader)):
        assert yaml.load(text.encode(), Loader=loader) == {"include": str(path)}
    assert len(text.splitlines()) == 2 or not str(path).isprintable()


def test_task_folder_prefers_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ragtasks"
    (package / "task_yamls").mkdir(parents=True)
    (tmp_path / "task_yamls").mkdir()
    monkeypatch.setattr("ragtasks.harness.tasks._PACKAGE", package)
    assert task_folder() == package / "task_yamls"
    (tmp_path / "pyproject.toml").touch()
    assert task_folder() == tmp_path / "task_yamls"
    shutil.rmtree(tmp_path / "task_yamls")
    assert task_folder() == package / "task_yamls"
    shutil.rmtree(package / "task_yamls")
    with pytest.raises(ConfigurationError, match="neither folder"):
        task_folder()


def in_a_fresh_python(code: str) -> str:
    """Return the output of a new interpreter with this checkout on its path."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_harness_is_found_without_being_imported() -> None:
    code = "import sys, ragtasks.harness.link as m; print(m.harness_tasks_folder(), 'lm_eval' in sys.modules, sep='|')"
    path, loaded = in_a_fresh_python(code).split("|")
    assert loaded == "False"
    assert Path(path) == harness_tasks_folder()
    assert (Path(path).parent / "__init__.py").is_file()


def test_a_missing_and_a_broken_harness_have_different_errors(tmp_path: Path) -> None:
    code = f"""
import sys
import ragtasks.harness.link as m
from ragtasks.errors import ConfigurationError
sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"]
for sys.path in ([], [{str(tmp_path)!r}]):
    try:
        m.link()
    except ConfigurationError as error:
        print(str(error).replace(chr(10), " "))
"""
    (tmp_path / "lm_eval" / "tasks").mkdir(parents=True)
    missing, remains = in_a_fresh_python(code).splitlines()
    assert "no module lm_eval" in missing
    assert f"without __init__.py: {tmp_path / 'lm_eval'}" in remains
