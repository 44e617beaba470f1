"""A card of drawn answers, of which the hard ones were drawn more often, describes all answers."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

from ragtasks.errors import BenchmarkFileError
from ragtasks.judges import JudgeCard, rubric_of
from ragtasks.records import Message, Role
from ragtasks.results import LabelledRows, ScoredAnswer, draw_answers, label_file, read_labelled_rows
from tests._messages import raises
from tests.reports._rows import changed, row
from tests.reports.test_judge_card import calibrated

N = 400
VALUES = {"yes": 1.0, "no": 0.0}


def number_in(text: str) -> int:
    (number,) = re.findall(r"Why (\d+)\?", text)
    return int(number)


def judged(number: int) -> str:
    return "yes" if number % 3 else "no"


def is_hard(number: int) -> bool:
    return number % 8 == 3


def truth(number: int) -> str:
    """Return the label of people: the judge errs on half of the hard answers, and on 2 % of the others."""
    is_wrong = number % 16 == 3 if is_hard(number) else number % 50 == 7
    return judged(number) if not is_wrong else {"yes": "no", "no": "yes"}[judged(number)]


def answers() -> list[ScoredAnswer]:
    """Return answers of 100 conversations. A second judge disagrees on the hard ones."""
    made = []
    for number in range(N):
        first = VALUES[judged(number)]
        given = {("idk", "scripted"): first, ("idk", "other"): 1 - first if is_hard(number) else first}
        messages = (Message(Role.USER, f"Why {number}?"),)
        changes = {"conversation_id": f"c{number % 100}", "text": f"Answer {number}."}
        made.append(changed(row(number, 0.5), messages=messages, verdicts=given, **changes))
    return made


def labelled(path: Path, n: int = 60) -> LabelledRows:
    """Draw answers, label them and read them again."""
    path.write_bytes(label_file(draw_answers(answers(), "idk", n), path))
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        filled = [{**one, "label": truth(number_in(one["messages"][-1]["content"]))} for one in rows]
        path.write_text("".join(json.dumps(one) + "\n" for one in filled), encoding="utf-8")
    else:
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
        output = io.StringIO()
        writer = csv.DictWriter(output, [*rows[0]])
        writer.writeheader()
        writer.writerows({**one, "label": truth(number_in(one["messages"]))} for one in rows)
        path.write_text(output.getvalue(), encoding="utf-8")
    return read_labelled_rows(path, rubric_of("idk"))


def card_of(folder: Path, rows: LabelledRows) -> JudgeCard:
    return calibrated(folder, rows, lambda prompt, _: judged(number_in(prompt)))[0]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_the_card_weights_drawn_answers(tmp_path: Path, name: str) -> None:
    rows = labelled(tmp_path / name)
    weights = [one.weight for one in rows.rows]
    assert (len(weights), sum(weights)) == (60, N)
    card = card_of(tmp_path, rows)
    numbers = [number_in(one.response.task.question) for one in rows.rows]
    people, given = ([function(number) for number in numbers] for function in (truth, judged))
    kappa = card.measure("kappa") or card.measure("weighted kappa")
    assert kappa.value == pytest.approx(cohen_kappa_score(people, given, sample_weight=weights))
    equal = [a == b for a, b in zip(people, given, strict=True)]
    agreement = card.measure("agreement")
    assert agreement.value == pytest.approx(sum(w * one for w, one in zip(weights, equal, strict=True)) / N)
    weight_of = {label: sum(w for w, one in zip(weights, people, strict=True) if one == label) for label in VALUES}
    most = max(weight_of, key=weight_of.__getitem__)
    assert card.measure(f"agreement of always {most}").value == pytest.approx(weight_of[most] / N)
    of_all = sum(truth(number) == judged(number) for number in range(N)) / N
    assert agreement.low < of_all < agreement.high
    assert sum(equal) / 60 < agreement.low, "without weights, the judge looks worse than it is"


def test_an_edited_draw_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    labelled(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, change in enumerate(({"draw": "17"}, {"id": "mine"})):
        changed_lines = [{**lines[0], **change}, *lines[1:]]
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in changed_lines), encoding="utf-8")
        with raises(BenchmarkFileError):
            read_labelled_rows(file, rubric_of("idk"))
    added = {"question": "Why?", "answer": "So.", "label": "no"}
    path.write_text("".join(json.dumps(one) + "\n" for one in [*lines, added]), encoding="utf-8")
    with raises(BenchmarkFileError):
        read_labelled_rows(path, rubric_of("idk"))


def test_a_disarmed_formula_in_a_table_is_the_original_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    drawn = draw_answers([changed(row(1, 0.5), text="- one\n- two"), changed(row(2, 0.5), text="'quoted'")], "idk", 10)
    table = label_file(drawn, path).decode()
    assert "'- one" in table
    path.write_text(table.replace(",,", ",no,"), encoding="utf-8")
    texts = {one.response.text for one in read_labelled_rows(path, rubric_of("idk")).rows}
    assert texts == {"- one\n- two", "'quoted'"}
