"""FaithDial: its file and the errors in it, its labels, overlap with the knowledge, corpus BLEU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ragtasks_more_benchmarks.faithdial import SIZES

from ragtasks.benchmarks import benchmark_folder, open_benchmark, source_of
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.metrics import corpus_bleu
from ragtasks.records import Response, Role, Setting
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from ragtasks.suites import suite_named

SAMPLE = benchmark_folder("faithdial", "sample", Path())
FILE = "data/test.json"
Dialogues = list[dict[str, Any]]


def changed(tmp_path: Path, edit: Callable[[Dialogues], object]) -> Path:
    """Return a copy of the sample with a file changed by a function."""
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    dialogues = json.loads((tmp_path / FILE).read_text("utf-8"))
    edit(dialogues)
    (tmp_path / FILE).write_text(json.dumps(dialogues), encoding="utf-8")
    return tmp_path


def test_the_test_split_has_its_published_dialogues_and_no_checksum_that_nobody_knows() -> None:
    (file,) = source_of("faithdial").files
    assert (SIZES.conversations, SIZES.tasks, file.sha256) == (791, None, None)


def test_a_reply_is_a_task_whose_one_passage_is_its_knowledge() -> None:
    sample = open_benchmark("faithdial", SAMPLE)
    task = sample.tasks[2]
    assert (task.task_id, sample.suite) == ("dialogue-1<::>3", "faithdial")
    assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT] * 2 + [Role.USER]
    assert [passage.text for passage in task.references] == [task.extra["knowledge"]]
    assert task.question_types == ("Hallucination", "Entailment")
    assert task.extra["vrm"] == ["Disclosure", "Edification"]
    assert task.extra["original"].startswith("Much cheaper")
    assert sample.read_contexts(Setting.REFERENCE).passages[task.task_id] == task.references


def test_a_dialogue_that_the_wizard_opens_is_read_from_its_end(tmp_path: Path) -> None:
    def open_by_wizard(dialogues: Dialogues) -> None:
        dialogues[0]["utterances"][0]["history"].insert(0, "Hello, I know a lot about lighthouses.")

    task = open_benchmark("faithdial", changed(tmp_path, open_by_wizard)).tasks[0]
    assert [message.role for message in task.messages] == [Role.ASSISTANT, Role.USER]
    assert task.multi_turn == "Follow-up"


def test_there_is_no_corpus_to_retrieve_from() -> None:
    with pytest.raises(ConfigurationError, match="use faithdial_reference"):
        open_benchmark("faithdial", SAMPLE).read_contexts(Setting.FULL_RAG)


def reply(dialogues: Dialogues) -> dict[str, Any]:
    return dialogues[0]["utterances"][1]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("edit", "message"), [
    (lambda all_: reply(all_).update(history=[]), r"file \(item 1\): expected `utterances\[1\].history`"),
    (lambda all_: reply(all_).update(response=""), "response` as a text"),
    (lambda all_: reply(all_).pop("knowledge"), "found no `knowledge`"),
    (lambda all_: reply(all_).update(BEGIN="Entailment"), "BEGIN` as a list"),
    (lambda all_: all_[1].update(utterances=[]), "item 2(.|\n)*`utterances`"),
    (lambda all_: all_.pop(), "conversations=4, tasks=11"),
])  # fmt: skip
def test_what_is_wrong_with_the_file_is_named(
    edit: Callable[[Dialogues], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("faithdial", changed(tmp_path, edit))


def test_a_copy_of_the_knowledge_has_all_of_its_words() -> None:
    benchmark = open_benchmark("faithdial", SAMPLE)
    task = benchmark.tasks[0]
    knowledge = task.extra["knowledge"]
    texts = (knowledge, task.target, "Whatever.")
    results = ResponseScorer(benchmark, EvaluationConfig(encoder="none")).score(
        [ScoredAnswer(Response(task, task.references, text), "reference") for text in texts]
    )
    copied, target, other = (result.scores["k_f1"] for result in results)
    assert copied == 1
    assert target is not None
    assert 0 < target < 1
    assert other == 0
    assert results[0].scores["bert_f1"] is None


def test_bleu_is_that_of_all_replies_together() -> None:
    (metric,) = (metric for metric in suite_named("faithdial").metrics if metric.name == "sacrebleu")
    assert metric.aggregate is corpus_bleu
    pairs = [(task.extra["knowledge"], (task.target,)) for task in open_benchmark("faithdial", SAMPLE).tasks]
    assert metric.aggregate([(text, (text,)) for text, _ in pairs]) == pytest.approx(100)
    assert 0 < metric.aggregate(pairs) < 50
