"""The file for InspectorRAGet: read by a validator of the format, which the official file checks in turn."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.reports.inspector import Exported, Key, ScoreTable, choose, export_inspector
from ragtasks.results import read_evaluations
from tests.reports._inspector_format import dropped, migrated, refusals
from tests.reports._saved import TASKS, facts_of, save
from tests.reports.test_history import command

HUMAN_FILE = "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"


def written(folder: Path, **options: Any) -> tuple[Exported, dict[str, Any]]:
    """Return what was exported from a folder, read back; nothing in it is refused or dropped."""
    done = export_inspector(read_evaluations([folder]), folder / "inspector.out", **options)
    found: dict[str, Any] = json.loads((folder / "inspector.out").read_text(encoding="utf-8"))
    assert found["schema_version"] == 2
    assert refusals(found) == []
    assert dropped(found) == []
    counts = [len(found[name]) for name in ("models", "metrics", "tasks", "results", "documents")]
    assert counts == [len(done.models), len(done.metrics), done.n_tasks, done.n_results, done.n_documents]
    return done, found


def test_the_official_file_reads_as_the_format_says(mtrag_root: Path) -> None:
    official = json.loads((mtrag_root / HUMAN_FILE).read_text(encoding="utf-8"))
    assert "schema_version" not in official
    found = migrated(official)
    assert refusals(found) == []
    assert dropped(found) == []
    assert (len(found["tasks"]), len(found["results"])) == (159, 477)
    assert {task["task_type"] for task in found["tasks"]} == {"qa"}
    assert {metric["aggregator"] for metric in found["metrics"] if "aggregator" in metric} <= {"average", "median"}
    # Ours has the same shape wherever the official one has a shape of its own.
    speakers = {message["speaker"] for task in found["tasks"] for message in task["input"]}
    assert speakers == {"user", "agent"}


def test_an_export_is_what_the_viewer_shows(tmp_path: Path) -> None:
    save(tmp_path, "org/A", values=lambda task_id: {"rb_alg": 0.25, "empty": float(task_id == "a<::>2")})
    done, found = written(tmp_path)
    assert done.left_out == ()
    assert found["name"] == "mtrag; reference"
    assert found["models"] == [{"model_id": "org/A", "name": "org/A", "owner": "org"}]
    assert [(metric["name"], metric["type"], metric["aggregator"], metric["range"]) for metric in found["metrics"]] == [
        ("rb_alg", "numerical", "mean", [0, 1, 0.1]),
        ("empty", "numerical", "mean", [0, 1, 0.1]),
    ]
    assert [metric["description"].endswith("; lower is better") for metric in found["metrics"]] == [False, True]
    assert {document["document_id"] for document in found["documents"]} == {"p1", "p2"}
    second = next(task for task in found["tasks"] if task["task_id"] == "a<::>2")
    assert second["task_type"] == "qa"
    assert [(message["speaker"], message["text"]) for message in second["input"]] == [
        ("user", "first"),
        ("agent", "reply"),
        ("user", "question 2 of a"),
    ]
    assert second["contexts"] == [{"document_id": "p1"}, {"document_id": "p2"}]
    assert second["targets"] == [{"type": "text", "value": "the target"}]
    assert all(name in second for name in found["filters"])
    result = next(item for item in found["results"] if item["task_id"] == "a<::>2")
    assert result == {
        "task_id": "a<::>2",
        "model_id": "org/A",
        "output": [{"role": "assistant", "content": "answer to a 2"}],
        "scores": {"rb_alg": {"system": {"value": 0.25}}, "empty": {"system": {"value": 1.0}}},
        "contexts": [{"document_id": "p1"}, {"document_id": "p2"}],
        "labels": {"idk": "no"},
    }


def test_judges_are_annotators_of_one_metric(tmp_path: Path) -> None:
    def judged(sample: dict[str, Any]) -> None:
        silent = sample["doc"]["task_id"] == "a<::>1"
        sample["doc"]["scoring"]["verdicts"] = [
            {"rubric": "rl_f", "judge": "j/1", "value": 0.5},
            {"rubric": "rl_f", "judge": "j/2", "value": None if silent else 1.0},
        ]

    save(tmp_path, change_sample=judged)
    _, found = written(tmp_path)
    assert [metric["name"] for metric in found["metrics"]] == ["rb_alg", "idk_yes", "judges_rl_f"]
    scores = {result["task_id"]: result["scores"]["judges_rl_f"] for result in found["results"]}
    assert scores["a<::>1"] == {"j/1": {"value": 0.5}}
    assert scores["a<::>2"] == {"j/1": {"value": 0.5}, "j/2": {"value": 1.0}}


def test_a_range_holds_every_value(tmp_path: Path) -> None:
    save(tmp_path, values=lambda task_id: {"rb_alg": -0.5 if task_id == "a<::>1" else 31.5})
    assert written(tmp_path)[1]["metrics"][0]["range"] == [-1, 32, 3.3]


def gaps(task_id: str) -> dict[str, float | None]:
    """Return scores where one task in four lacks one metric, and no task has another."""
    return {"rb_alg": None if task_id == "b<::>2" else 0.5, "rouge_l": None, "idk_yes": 0.0}


@pytest.mark.parametrize(
    ("most_unscored", "metrics", "n_tasks", "left_out"),
    [
        (
            0.0,
            ["idk_yes"],
            4,
            ["metric rb_alg: no value in 1 of 4 tasks", "metric rouge_l: no value in 4 of 4 tasks"],
        ),
        (
            0.25,
            ["rb_alg", "idk_yes"],
            3,
            ["metric rouge_l: no value in 4 of 4 tasks", "1 tasks without a value of rb_alg (1)"],
        ),
    ],
)
def test_what_would_be_dropped_is_left_out_and_told(
    tmp_path: Path, most_unscored: float, metrics: list[str], n_tasks: int, left_out: list[str]
) -> None:
    save(tmp_path, values=gaps)
    done, found = written(tmp_path, most_unscored=most_unscored)
    assert [metric["name"] for metric in found["metrics"]] == metrics
    assert done.n_tasks == n_tasks
    assert list(done.left_out) == left_out
    assert all(f"left out: {line}" in done.describe() for line in left_out)
    # Without the choice, the viewer itself would have taken the task away.
    if n_tasks == 3:
        task = {"task_id": "b<::>2"}
        result = {"task_id": "b<::>2", "model_id": "org/model", "scores": {"idk_yes": {"system": {"value": 0.0}}}}
        assert dropped({**found, "tasks": [*found["tasks"], task], "results": [*found["results"], result]}) == [
            "b<::>2"
        ]


def test_tasks_that_a_model_lacks_are_left_out_for_all(tmp_path: Path) -> None:
    save(tmp_path / "a", "A")
    save(tmp_path / "b", "B", tasks=(*TASKS[1:], ("c", 1)))
    done, found = written(tmp_path)
    assert done.left_out == ("2 tasks that not every model answered",)
    assert {task["task_id"] for task in found["tasks"]} == {"a<::>2", "b<::>1", "b<::>2"}
    assert (done.models, done.n_results) == (("A", "B"), 6)
    assert done.n_documents == 2  # both models saw the same passages


def test_parts_of_a_model_are_put_together_and_repeats_are_numbered(tmp_path: Path) -> None:
    save(tmp_path / "1", "A", tasks=TASKS[:2])
    save(tmp_path / "2", "A", tasks=TASKS[2:])
    save(tmp_path / "3", "A")
    done, _ = written(tmp_path)
    assert (done.models, done.n_tasks) == (("A", "A #2"), 4)


def test_a_task_in_two_settings_is_two_tasks(tmp_path: Path) -> None:
    for setting in ("reference", "full_rag"):
        save(tmp_path / setting, "A", setting=setting)
    done, found = written(tmp_path)
    assert (done.models, done.n_tasks) == (("A",), 8)
    assert {task["task_id"]: task["Setting"] for task in found["tasks"] if "a<::>1" in task["task_id"]} == {
        "reference/a<::>1": "reference",
        "full_rag/a<::>1": "full_rag",
    }
    done, found = written(tmp_path, setting="full_rag")
    assert {task["task_id"] for task in found["tasks"]} == {f"{name}<::>{turn}" for name, turn in TASKS}


def test_passages_that_share_an_id_stay_apart(tmp_path: Path) -> None:
    save(tmp_path / "a", "A")
    save(tmp_path / "b", "B", change_sample=lambda sample: sample["doc"]["passages"][0].update(text="cut otherwise"))
    _, found = written(tmp_path)
    texts = {document["document_id"]: document["text"] for document in found["documents"]}
    assert texts["p1"] == "text 1"
    assert texts["p1 (2)"] == "cut otherwise"
    contexts = {(item["model_id"], item["task_id"]): item["contexts"] for item in found["results"]}
    assert contexts["B", "a<::>2"] == [{"document_id": "p1 (2)"}, {"document_id": "p2"}]


def test_what_the_viewer_could_not_show_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a", "A")
    save(tmp_path / "b", "B", tasks=(("x", 1),))
    with pytest.raises(ConfigurationError, match=r"nothing that every model answered.*5 tasks that not every model"):
        written(tmp_path)
    with pytest.raises(ConfigurationError, match="no task"):
        written(tmp_path, setting="full_rag")
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        written(tmp_path, most_unscored=1.5)
    assert not (tmp_path / "inspector.out").exists()


def test_other_kinds_need_files_of_their_own(tmp_path: Path) -> None:
    def without_encoder(results: dict[str, Any]) -> None:
        results["configs"]["mtrag_reference"]["metadata"]["ragtasks"]["scoring"]["encoder"] = "none"

    save(tmp_path / "a", "A")
    save(tmp_path / "b", "B", change=without_encoder)
    with pytest.raises(ConfigurationError, match=r"encoder of BERTScore: minilm.*\n  mtrag;.*BERTScore: none"):
        written(tmp_path)


def test_other_versions_of_the_files_need_files_of_their_own(tmp_path: Path) -> None:
    save(tmp_path / "a", "A")
    save(tmp_path / "b", "B", change=lambda results: facts_of(results).update(revision="other"))
    with pytest.raises(ConfigurationError, match=r"scored alike; found:\n  mtrag; data revision: cc5b1d4.*\n.*: other"):
        written(tmp_path)


def test_what_was_asked_otherwise_is_another_model_and_the_name_says_so(tmp_path: Path) -> None:
    def shorter(results: dict[str, Any]) -> None:
        facts_of(results)["configuration"].update(max_words=50)

    save(tmp_path / "1", "A")
    save(tmp_path / "2", "A", setting="full_rag", change=shorter)
    with pytest.raises(ConfigurationError, match="8 tasks that not every model answered"):
        written(tmp_path)
    save(tmp_path / "2", "A", change=shorter, day=2)
    done, found = written(tmp_path)
    assert done.models == ("A", "A #2")
    assert found["name"] == (
        "mtrag; reference; files: A is 1/results_2026-01-01.json, "
        "A #2 is 2/results_2026-01-01.json and 2/results_2026-01-02.json; max_words: - for A, but 50 for A #2"
    )


def test_the_command_exports_the_harness_s_own_output(evaluations: Path, tmp_path: Path) -> None:
    output = tmp_path / "inspector.json"
    status, text = command("export", "inspector", evaluations, "--output", output)
    assert status == 0
    assert "left out: metric rb_alg: no value in 36 of 36 tasks" in text  # no encoder
    found = json.loads(output.read_text(encoding="utf-8"))
    assert refusals(found) == []
    assert dropped(found) == []
    assert {model["model_id"] for model in found["models"]} == {"ragtasks-oracle", "ragtasks-refuse"}
    assert found["name"].startswith("mtrag (sample); ")
    assert len({document["document_id"] for document in found["documents"]}) == len(found["documents"])
    known = {document["document_id"] for document in found["documents"]}
    assert all(item["document_id"] in known for result in found["results"] for item in result["contexts"])


names = st.sampled_from(["m1", "m2", "m3"])
keys = st.tuples(st.sampled_from(["reference", "full_rag"]), st.sampled_from("abcde"))
scores = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.just({"system": 0.5}))


@given(
    st.dictionaries(names, st.dictionaries(keys, scores), min_size=1),
    st.floats(0, 1),
)
def test_a_choice_leaves_no_gap_and_takes_no_more_than_it_says(
    cells: dict[str, dict[Key, dict[str, dict[str, float]]]], most: float
) -> None:
    shared = [key for key in cells[min(cells)] if all(key in own for own in cells.values())]

    def lacking(name: str) -> set[Key]:
        return {key for key in shared if any(name not in own[key] for own in cells.values())}

    metrics = [name for name in "xyz" if len(lacking(name)) <= most * len(shared) and lacking(name) != set(shared)]
    kept = set(shared).difference(*map(lacking, metrics))
    table = ScoreTable(cells, ("x", "y", "z"))
    if not metrics or not kept:
        with pytest.raises(ConfigurationError):
            choose(table, most)
        return
    chosen = choose(table, most)
    assert (list(chosen.metrics), set(chosen.keys)) == (metrics, kept)
    assert all(name in own[key] for own in cells.values() for key in chosen.keys for name in chosen.metrics)
    n_every = len({key for own in cells.values() for key in own})
    told = [len(shared) < n_every, *(name not in metrics for name in "xyz"), len(kept) < len(shared)]
    assert len(chosen.left_out) == sum(told)


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        inner: Any = found
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(without(name) for name in ("models", "metrics", "tasks", "results", "documents")),
        *(without("models", 0, name) for name in ("model_id", "name", "owner")),
        *(without("metrics", 0, name) for name in ("name", "author", "type")),
        *(without("tasks", 0, name) for name in ("task_id", "task_type", "input", "contexts")),
        without("documents", 0, "document_id"),
        lambda found: found["metrics"][0].update(aggregator="majority"),
        lambda found: found["metrics"][0].update(type="categorical"),
        lambda found: found["metrics"][0].update(author="judge"),
        lambda found: found["tasks"][0].update(task_type="chatting"),
    ],
)
def test_the_validator_refuses_what_the_format_refuses(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    save(tmp_path)
    found = written(tmp_path)[1]
    change(found)
    assert refusals(found) != []


@pytest.mark.parametrize(
    "change",
    [
        without("results", 0),
        without("results", 0, "scores", "rb_alg"),
        without("results", 0, "scores", "rb_alg", "system"),
        without("results", 0, "scores", "rb_alg", "system", "value"),
    ],
)
def test_the_validator_drops_what_the_viewer_drops(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    save(tmp_path)
    found = written(tmp_path)[1]
    spoilt = copy.deepcopy(found)
    change(spoilt)
    assert dropped(spoilt) == [found["results"][0]["task_id"]]
