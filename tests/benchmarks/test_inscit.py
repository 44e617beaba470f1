"""INSCIT: its files and their errors, its labels, its corpus, its sample, and the real data's counts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.benchmarks.inscit import ANSWERABILITY, DEV, TEST
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Role, Setting
from tests._messages import raises
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("inscit", "sample", Path())
Change = Callable[[Callable[[dict[str, Any]], None]], Path]


@pytest.fixture
def changed(tmp_path: Path) -> Change:
    """Return a copy of the sample with a test split changed by a function."""

    def change(edit: Callable[[dict[str, Any]], None]) -> Path:
        shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
        content = json.loads((tmp_path / "data/test.json").read_text("utf-8"))
        edit(content)
        (tmp_path / "data/test.json").write_text(json.dumps(content), encoding="utf-8")
        return tmp_path

    return change


def test_the_official_dev_split_has_its_counts(tmp_path: Path) -> None:
    file = REAL_DATA / "inscit/dev.json"
    if not file.is_file():
        pytest.skip(f"no real INSCIT data at {file}")
    (tmp_path / "data").mkdir()
    shutil.copy(file, tmp_path / "data/dev.json")
    tasks = open_benchmark("inscit_dev", tmp_path).tasks
    assert (len(tasks), len({task.conversation_id for task in tasks})) == (502, 86)
    assert Counter(len(task.variants) for task in tasks) == {2: 333, 1: 169}
    assert Counter(task.answerability.value for task in tasks) == {
        "ANSWERABLE": 344, "PARTIAL": 75, "UNDERSPECIFIED": 66, "UNANSWERABLE": 17,
    }  # fmt: skip
    assert tasks[0].task_id == "food_level1_dial24<::>1"
    assert all(task.messages[-1].role is Role.USER for task in tasks)
    assert file.stat().st_size == DEV.file.n_bytes


def test_a_turn_is_a_task_with_the_labels_of_both_annotators() -> None:
    sample = open_benchmark("inscit", SAMPLE)
    task = sample.tasks[2]
    assert (task.task_id, task.turn, len(task.messages), sample.suite) == ("island-01<::>3", 3, 5, "inscit")
    first, second = task.variants
    assert first is task
    assert (first.answerability, second.answerability) == (Answerability.PARTIAL, Answerability.UNANSWERABLE)
    assert second.target == "Sorry, I did not find any useful information."
    assert task.question_types == ("noAnswerButRelevantInfo", "noAnswerNoRelevantInfo")
    assert [passage.passage_id for passage in task.references] == ["Velmarrow:2"]
    contexts = sample.read_contexts(Setting.REFERENCE).passages
    assert contexts[task.task_id] == task.references


def test_every_response_type_has_its_answerability() -> None:
    labels = [name for task in open_benchmark("inscit", SAMPLE).tasks for name in task.extra["response_types"]]
    assert set(labels) == set(ANSWERABILITY)


def test_both_splits_have_the_same_commit_and_one_file_each() -> None:
    for split in (TEST, DEV):
        source = source_of(split.name)
        assert [file.path for file in source.files] == [split.file.path]
        assert source.base_url.endswith(f"{source.commit}/")


def test_judgements_refer_to_passages_of_the_corpus() -> None:
    side = retrieval_side("inscit")
    rows = [json.loads(line) for line in side.corpus_file(SAMPLE, "wikipedia").read_text("utf-8").splitlines()]
    ids = {row["_id"] for row in rows}
    qrels = side.load_qrels(SAMPLE, "wikipedia")
    assert {qrel.passage_id for qrel in qrels} <= ids
    assert len({qrel.query_id for qrel in qrels}) == sum(
        bool(t.references) for t in open_benchmark("inscit", SAMPLE).tasks
    )
    assert side.document_of is not None
    assert side.document_of("Game:_a_history:12") == "Game:_a_history"


def test_a_missing_corpus_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="text_0420_processed"):
        retrieval_side("inscit").corpus_file(tmp_path, "wikipedia")


def test_a_corpus_file_in_another_format_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "text_0420_processed"
    folder.mkdir(parents=True)
    (folder / "wiki_1.json").write_text('[{"title": "Velmarrow"}]', encoding="utf-8")
    with raises(BenchmarkFileError):
        retrieval_side("inscit").corpus_file(tmp_path, "wikipedia")


def test_retrieved_passages_require_a_run() -> None:
    with raises(ConfigurationError):
        open_benchmark("inscit", SAMPLE).read_contexts(Setting.FULL_RAG)


def turn(content: dict[str, Any]) -> dict[str, Any]:
    return content["island-01"]["turns"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("edit", "message"), [
    (lambda content: turn(content)["context"].append("Yes."), "end with the user"),
    (lambda content: turn(content).update(context=[" "]), r"`island-01\.turns\[0\]\.context\[0\]` as a text"),
    (lambda content: turn(content).update(labels=[]), r"labels` as more values, found \[\]"),
    (lambda content: turn(content)["labels"][0].update(responseType="answer"), "responseType` as 'directAnswer'"),
    (lambda content: turn(content)["labels"][0].update(response=" "), "response` as a text that is not blank"),
    (lambda content: turn(content)["labels"][1].update(evidence=None), "evidence` as a list, found None"),
    (lambda content: turn(content)["labels"][0]["evidence"][0].pop("passage_id"), "found no `passage_id`"),
    (lambda content: turn(content)["labels"][0]["evidence"][0].update(passage_titles=[1]), "as a text, found 1"),
    (lambda content: content["island-01"].update(turns=[]), r"island-01\.turns` as more values"),
    (lambda content: content.clear(), "file: expected more values, found {}"),
    (lambda content: content.pop("island-01"), r"file: expected SplitSize\(conversations=10, tasks=22"),
])  # fmt: skip
def test_every_problem_of_a_file_is_named(
    edit: Callable[[dict[str, Any]], None], message: str, changed: Change
) -> None:
    folder = changed(edit)
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("inscit", folder)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "data/test.json").write_text("{", encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=r"test\.json: 1 error"):
        open_benchmark("inscit", tmp_path)
