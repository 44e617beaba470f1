"""The record of an answer and its logged form: one schema, which logged files follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from ragtasks.results import logged_sample, read_evaluations, rewritten_sample, saved_answer
from tests.reports._pages import vary
from tests.reports._saved import save

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "logged-sample.schema.json"


def logged(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("samples_*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def test_the_schema_in_the_docs_is_that_of_the_code() -> None:
    text = json.dumps(logged_sample().json_schema(), indent=2) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == text, f"write this text to {SCHEMA}"


def test_logged_files_follow_the_schema(evaluations: Path, tmp_path: Path) -> None:
    save(tmp_path, change_sample=vary)
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for folder in (evaluations, tmp_path):
        samples = list(logged(folder))
        assert samples
        assert [error.message for sample in samples for error in validator.iter_errors(sample)] == []


def test_tokens_that_the_models_own_tokenizer_counted_are_read(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "counted_by": "tokenizer"}
    save(tmp_path, change_sample=lambda sample: sample["doc"].update(usage=usage))
    (evaluation,) = read_evaluations([tmp_path])
    assert [row.usage for row in evaluation.rows] == [usage] * len(evaluation.rows)
    assert {type(row.usage["input_tokens"]) for row in evaluation.rows} == {int}


def test_a_record_without_texts_keeps_their_hash_when_its_scores_change(evaluations: Path) -> None:
    row = read_evaluations([evaluations])[0].rows[0]
    saved = replace(row, response=replace(row.response, text=""), saved_hash=row.answer_hash)
    assert replace(saved, scores={}).answer_hash == row.answer_hash


def test_a_record_writes_the_sample_that_it_was_read_from(evaluations: Path, tmp_path: Path) -> None:
    save(tmp_path, change_sample=vary)
    for sample in (*logged(evaluations), *logged(tmp_path)):
        written = json.loads(json.dumps(rewritten_sample(saved_answer(sample))))
        assert saved_answer(written) == saved_answer(sample)
        assert (written.keys(), written["doc"].keys()) == (sample.keys(), sample["doc"].keys())


def test_a_second_scoring_replaces_the_scores_and_keeps_other_fields(evaluations: Path) -> None:
    sample = next(logged(evaluations)) | {"metrics": ["old", "kept"], "old": 1.0, "kept": 0.0}
    answer = replace(saved_answer(sample), scores={"kept": 0.5, "new": None}, together=("bleu",))
    written = rewritten_sample(answer)
    assert written["metrics"] == ["kept", "new", "bleu"]
    assert (written["kept"], str(written["new"]), "old" in written) == (0.5, "nan", False)
    assert written["bleu"] == (answer.response.text, (answer.task.target,))
    assert written["resps"] == sample["resps"]
    assert sample["metrics"] == ["old", "kept"], "what was read stays as it is"


def test_a_record_has_the_logged_values(evaluations: Path) -> None:
    rows = [row for evaluation in read_evaluations([evaluations]) for row in evaluation.rows]
    samples = {(sample["doc"]["setting"], sample["doc"]["task_id"], sample["filtered_resps"][0]): sample
               for sample in logged(evaluations)}  # fmt: skip
    for row in rows:
        sample = samples[row.setting, row.task.task_id, row.response.text]
        doc, scoring = sample["doc"], sample["doc"]["scoring"]
        assert [message.text for message in row.task.messages] == [
            *(message["content"] for message in doc["history"]), doc["question"]
        ]  # fmt: skip
        assert [(passage.passage_id, passage.text) for passage in row.response.passages] == [
            (passage["passage_id"], passage["text"]) for passage in doc["passages"]
        ]
        assert (row.idk, row.idk_reason, row.unscored) == tuple(
            scoring[key] for key in ("idk", "idk_reason", "unscored")
        )
        assert row.implausible == scoring.get("implausible")
        assert row.turn_error == scoring.get("turn_error")
        scored = {name: value for name in sample["metrics"] if (value := sample[name]) == value}
        if "balanced_ans_acc" in scored:
            scored["balanced_ans_acc"] = scored["ans_acc"]
        assert {name: value for name, value in row.scores.items() if value is not None} == {
            name: value for name, value in scored.items() if not isinstance(value, list)
        }
