"""Output of the commands on runs: next steps, data, and listed runs."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, contexts_of_run, open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.records import Setting
from retrieval_cache import Workspace, evaluate_runs
from tests._commands import run_command

BY_BM25 = ("retrieve", "--retriever", "bm25", "--benchmark", "custom")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    return tmp_path / "store"


def printed(*arguments: str) -> list[str]:
    """Return the output lines of a command, which must succeed."""
    done = run_command(*arguments)
    assert done.status == 0
    return done.out.splitlines()


def own_data(name: str, domain: str = "lending") -> Path:
    """Copy the sample of custom data to a folder, with another name for one of its domains."""
    folder = Path(name)
    folder.mkdir(parents=True)
    sample = benchmark_folder("custom", "sample", Path())
    for file in ("conversations.jsonl", "passages.jsonl"):
        text = (sample / file).read_text(encoding="utf-8")
        (folder / file).write_text(text.replace('"lending"', f'"{domain}"'), encoding="utf-8")
    return folder


@pytest.mark.parametrize("data", ["sample", "it's\tmine é", "", "~/mine"])
def test_the_next_steps_can_be_pasted_and_name_the_same_data(
    data: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(store.parent))
    monkeypatch.setenv("RAGTASKS_DATA", "of-the-environment")
    if data != "sample":
        own_data(data.replace("~", str(store.parent)) or "of-the-environment")
    given = ["--data", data] if data else []
    place, following, use = printed(*BY_BM25, *given, "--name", "mine")
    assert place == f"run mine in {store / 'runs' / 'mine'}"
    words = shlex.split(following.removeprefix("next: "))
    assert words == ["ragtasks", "evaluate-run", "mine", "--benchmark", "custom", *given]
    assert any(line.startswith("| mine ") for line in printed(*words[1:]))
    start = "use it in tasks of custom with ragtasks run "
    assert use.startswith(start)
    assert shlex.split(use.removeprefix(start)) == [*given, "--run", "mine"]
    root = benchmark_folder("custom", data or None, Path("of-the-environment")).resolve()
    assert contexts_of_run(store, "mine", open_benchmark("custom", root), Setting.FULL_RAG).passages


@pytest.mark.parametrize(
    ("benchmark", "judged", "used"),
    [
        ("mtrag", True, True),
        ("mtrag_un", True, True),
        ("doc2dial", True, False),
        ("multidoc2dial_propositions", False, True),
    ],
)
def test_only_applicable_next_steps_are_proposed(benchmark: str, judged: bool, used: bool, store: Path) -> None:
    lines = printed("retrieve", "--retriever", "bm25", "--benchmark", benchmark, "--data", "sample")
    assert [line.split(" ")[0] for line in lines] == ["run", *["next:"] * judged, *["use"] * used]
    if judged:
        assert printed(*shlex.split(lines[1])[2:])
    else:
        with pytest.raises(ConfigurationError, match="no relevance judgements"):
            evaluate_runs(Workspace(benchmark, "sample", store, store), [Path(lines[0]).name])


def test_an_identical_run_is_linked_under_another_name(store: Path) -> None:
    first = printed(*BY_BM25, "--data", "sample", "--name", "first")
    again = printed(*BY_BM25, "--data", "sample", "--name", "second")
    assert again[1] == "the same run exists as first: second is linked to its files"
    assert [line.replace("second", "first") for line in (again[0], *again[2:])] == first
    made = printed(*BY_BM25, "--data", "sample")
    assert made[0] == f"run bm25.last_turn.custom.sample in {store / 'runs' / 'bm25.last_turn.custom.sample'}"
    printed("results", "remove", "first")
    for name in ("second", "bm25.last_turn.custom.sample"):
        assert printed("check", name) == ["all files are unchanged"]
        assert printed("evaluate-run", name, "--benchmark", "custom", "--data", "sample")


def test_runs_on_custom_data_are_distinguished(store: Path) -> None:
    assert printed("results", "list") == [
        f"no runs in {store / 'runs'}; `ragtasks retrieve --retriever bm25` makes a run"
    ]
    for name, data in (("a", "one"), ("b", "two"), ("c", "other/one")):
        printed(*BY_BM25, "--name", name, "--data", str(own_data(data, f"lending-{name}")))
    printed(*BY_BM25, "--name", "sampled", "--data", "sample")
    header, *rows = (line.split("  ") for line in printed("results", "list"))
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [cell.strip() for cell in header if cell.strip()] == ["run", "data", "revision", "retriever", "queries"]
    data_of = {row[0]: row[1] for row in cells}
    assert data_of == {"a": "custom: one", "b": "custom: two", "c": "custom: one", "sampled": "custom (sample)"}
    assert len({row[2] for row in cells}) == 4
    shown = json.loads("\n".join(printed("results", "show", "b")))
    assert shown["metadata"]["copy"] == "two"
    assert shown["spec"]["revision"].startswith(next(row[2] for row in cells if row[0] == "b"))
    # An unreadable run does not hide the others.
    (store / "runs" / "a" / "manifest.json").write_text("{", encoding="utf-8")
    *listed, said = printed("results", "list")
    assert [line.split()[0] for line in listed[1:4]] == ["b", "c", "sampled"]
    assert listed[4:] == ["", "runs that cannot be read: 1"]
    assert str(store / "runs" / "a") in said
    shutil.rmtree(store / "runs")
    assert printed("results", "list")[0].startswith("no runs in ")
