"""Records of other tools: their keys, several references, lists in cells, and keys that a user names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Role
from ragtasks.results import (
    ROW_KEYS,
    OwnRows,
    contains_own_rows,
    is_own_row,
    keys_step,
    named_keys,
    own_rows,
    read_own_rows,
)

QUESTION, ANSWER = "How long is a loan?", "Three weeks."
TEXTS = ["Books are lent for three weeks.", 'A loan, as "they" say, can\'t be renewed twice.']


def read(row: dict[str, Any], keys: str = "") -> OwnRows:
    problems: list[str] = []
    result = own_rows([(1, row)], lambda *problem: problems.append(str(problem)), named_keys(keys) if keys else {})
    assert not problems
    return result


def texts_of(rows: OwnRows) -> list[str]:
    (given,) = rows.answers.values()
    return [passage.text for passage in given.passages or ()]


TOOLS: dict[str, dict[str, Any]] = {
    "RAGChecker": {
        "query_id": "0",
        "query": QUESTION,
        "gt_answer": "21 days",
        "response": ANSWER,
        "retrieved_context": [{"doc_id": number, "text": text} for number, text in enumerate(TEXTS)],
    },
    "ragas": {"user_input": QUESTION, "retrieved_contexts": TEXTS, "response": ANSWER, "reference": "21 days"},
    "first ragas": {"question": QUESTION, "contexts": TEXTS, "answer": ANSWER, "ground_truths": ["21 days"]},
    "deepeval": {
        "input": QUESTION,
        "actual_output": ANSWER,
        "expected_output": "21 days",
        "retrieval_context": TEXTS,
        "context": ["the right passage, which no answer had"],
    },
    "Azure": {"query": QUESTION, "response": ANSWER, "context": "\n".join(TEXTS), "ground_truth": "21 days"},
    "Azure's first": {"question": QUESTION, "answer": ANSWER, "context": "\n".join(TEXTS), "truth": "21 days"},
    "LangChain's documents": {
        "question": QUESTION,
        "answer": ANSWER,
        "contexts": [{"page_content": text, "metadata": {"id": "x"}, "type": "Document"} for text in TEXTS],
        "reference": "21 days",
    },
}


@pytest.mark.parametrize("row", TOOLS.values(), ids=TOOLS)
def test_a_row_of_another_tool_needs_no_option(row: dict[str, Any]) -> None:
    assert is_own_row(row)
    rows = read(row)
    (task,) = rows.benchmark.tasks
    assert (task.question, task.target) == (QUESTION, "21 days")
    assert [given.text for given in rows.answers.values()] == [ANSWER]
    assert texts_of(rows) in (TEXTS, ["\n".join(TEXTS)])


def test_the_reference_passages_of_deepeval_are_named_and_not_read() -> None:
    rows = read({"input": "q", "actual_output": "a", "context": TEXTS})
    assert texts_of(rows) == []
    assert rows.unread_note == "not read: context (1 rows)"


def test_an_ambiguous_key_counts_only_without_another_key() -> None:
    rows = read({"question": QUESTION, "query": "loan length", "answer": ANSWER, "output": "raw"})
    assert rows.benchmark.tasks[0].question == QUESTION
    assert [given.text for given in rows.answers.values()] == [ANSWER]
    assert rows.unread_note == "not read: query (1 rows), output (1 rows)"


def test_whole_numbers_are_ids_of_passages() -> None:
    rows = read(
        {"question": "q", "answer": "a", "contexts": [{"id": 17, "text": "x"}, {"document_id": 0, "text": "y"}]}
    )
    (given,) = rows.answers.values()
    assert [passage.passage_id for passage in given.passages or ()] == ["17", "0"]


@pytest.mark.parametrize(
    "cell",
    [
        json.dumps(TEXTS),
        repr(TEXTS),
        str(numpy.array(TEXTS, dtype=object)),
        repr([{"text": text, "metadata": {"page": None}} for text in TEXTS]),
    ],
    ids=["json", "python", "numpy", "objects"],
)
def test_a_cell_of_a_table_contains_a_list(cell: str) -> None:
    assert texts_of(read({"question": "q", "answer": "a", "contexts": cell})) == TEXTS


def test_a_table_of_deepeval_joins_the_passages() -> None:
    assert texts_of(read({"input": "q", "actual_output": "a", "retrieval_context": "one|two"})) == ["one", "two"]
    assert texts_of(read({"question": "q", "answer": "a", "contexts": "one|two"})) == ["one|two"]


@pytest.mark.parametrize("text", ["[1] Books are lent.", "[see page 3]", "Books [are] lent."])
def test_a_text_with_brackets_is_one_passage(text: str) -> None:
    assert texts_of(read({"question": "q", "answer": "a", "contexts": text, "reference": text})) == [text]


@pytest.mark.parametrize("text", ['["a"]', "[]", "['a' 'b']"])
def test_a_question_in_brackets_is_a_text(text: str) -> None:
    assert read({"question": text, "answer": text}).benchmark.tasks[0].question == text


def test_a_reference_that_is_json_is_a_text() -> None:
    text = '[{"name": "Ada"}]'
    assert read({"question": "q", "answer": "a", "reference": text}).benchmark.tasks[0].target == text


@pytest.mark.parametrize("value", [True, {"page": 3}])
def test_an_ambiguous_key_counts_only_for_texts_and_lists(value: object) -> None:
    rows = read({"question": "q", "answer": "a", "context": value, "truth": value})
    assert texts_of(rows) == []
    assert rows.unread_note == "not read: context (1 rows), truth (1 rows)"


def test_a_table_of_pandas_is_read_with_lists_numbers_and_empty_cells(tmp_path: Path) -> None:
    row = {"user_input": "q?", "response": "", "retrieved_contexts": TEXTS, "reference": None, "seconds": 1.5, "id": 7}
    pandas.DataFrame([row, {**row, "id": 8, "response": "a", "reference": ["r", "s"]}]).to_csv(tmp_path / "t.csv")
    rows = read_own_rows(tmp_path / "t.csv")
    first, second = rows.benchmark.tasks
    assert (first.task_id, first.target, rows.answers["7"].text, rows.answers["7"].usage) == (
        "7",
        "",
        "",
        {"seconds": 1.5},
    )
    assert [task.target for task in second.variants] == ["r", "s"]


def test_every_reference_counts_and_two_lists_of_them_differ() -> None:
    row = {"question": "q", "answer": "a", "reference": ["5 euros", "Five euros.", "5 euros", " "]}
    (task,) = read(row).benchmark.tasks
    assert [variant.target for variant in task.variants] == ["5 euros", "Five euros."]
    revisions = [
        read({**row, "reference": given}).benchmark.revision for given in ("5 euros", ["5 euros"], row["reference"])
    ]
    assert revisions[0] == revisions[1] != revisions[2]
    assert read({**row, "reference": []}).benchmark.tasks[0].target == ""


def test_turns_of_other_tools_are_a_conversation() -> None:
    turns = [
        {"content": "Hi?", "type": "human"},
        {"content": "Hello.", "type": "ai"},
        {"speaker": "user", "text": QUESTION},
        {"speaker": "agent", "text": ANSWER},
    ]
    rows = read({"user_input": turns})
    (task,) = rows.benchmark.tasks
    assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert [given.text for given in rows.answers.values()] == [ANSWER]


def test_predictions_for_mtrag_answer_its_tasks() -> None:
    turns = [{"speaker": "user", "text": QUESTION}]
    row = {"task_id": "a<::>1", "input": turns, "contexts": [], "predictions": [{"text": ANSWER}]}
    assert not is_own_row(row)
    assert is_own_row({"input": turns, "answer": ANSWER})
    assert is_own_row({"task_id": "7", "input": QUESTION, "actual_output": ANSWER})
    assert is_own_row({"id": "7", "query": QUESTION, "answer": ANSWER})
    assert not is_own_row({"id": "a<::>1", "query": QUESTION, "answer": ANSWER})


NESTED = {"vars": {"question": QUESTION, "context": TEXTS[0]}, "response": {"output": ANSWER}, "success": True}


def test_keys_that_a_user_names_lead_into_objects() -> None:
    rows = read(NESTED, "question=vars.question,answer=response.output,contexts=vars.context")
    assert rows.benchmark.tasks[0].question == QUESTION
    assert texts_of(rows) == [TEXTS[0]]
    assert rows.unread_note == "not read: success (1 rows)"
    chat = {"q": QUESTION, "choices": [{"text": ANSWER}]}
    assert [given.text for given in read(chat, "question=q,answer=choices.0.text").answers.values()] == [ANSWER]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"q": QUESTION, "a": ANSWER, "n": 3}, "question=q,answer=a"),
        ({"question": QUESTION, "model_answer": ANSWER, "lang": "en"}, "answer=model_answer"),
        (NESTED, "question=vars.question,answer=response.output,contexts=vars.context"),
        ({"prompt": QUESTION, "completion": ANSWER}, "question=prompt,answer=completion"),
        ({"id": "7", "inputs": {"question": QUESTION}, "outputs": ANSWER}, "question=inputs.question,answer=outputs"),
        ({"id": "a<::>1", "model_output": ANSWER}, "answer=model_output"),
    ],
)
def test_unknown_keys_are_one_error_with_the_line_to_type(row: dict[str, Any], line: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f"{json.dumps(row)}\n" * 2, encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        assert read_own_rows(file) if contains_own_rows(file) else None
    assert f"`ragtasks score {file} --keys {line}`; keys found: " in str(caught.value)
    if "question" in row or "question=" in line:
        read(row, line)


def test_a_reference_is_never_suggested_as_an_answer() -> None:
    row = {"question": QUESTION, "reference_answer": ANSWER, "expected": ANSWER}
    assert "--keys answer=KEY`; keys found: question, reference_answer" in keys_step(ROW_KEYS, row, "score --keys {}")


def test_a_value_without_a_key_is_not_read() -> None:
    row = {"question": QUESTION, "answer": ANSWER, "cost": 0.1}
    problems: list[str] = []
    own_rows([(1, row)], lambda *problem: problems.append(str(problem)))
    assert "--keys cost=-" in problems[0]
    assert read(row, "cost=-").unread_note.startswith("not read: cost")


def test_an_unknown_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'answer'"):
        named_keys("anwser=response")
    with pytest.raises(ConfigurationError, match="no key after"):
        named_keys({"answer": ""})
