"""A card reports the error rate, the flip rate and the length bias of a scripted judge, and the gate follows it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from ragtasks.config.environment import card_folder
from ragtasks.judges import AGREEMENT, KAPPA, UNDECIDED, CardRow, JudgeCard, stored_cards
from tests._commands import run_command
from tests.clients._server import Action, ChatServer, chat_server, completion
from tests.judges._demo import QUICK

RUBRIC = """
prompt: |
  Was the question answered? {{ question }}
  REPLY<{{ answer }}>REPLY
labels: {right: 1, wrong: 0}
"""
ERRORS, FLIPS = 0.15, 0.12


def chance(*words: object) -> float:
    """Return a number from 0 to 1 that only depends on the words."""
    return int(hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()[:8], 16) / 2**32


def truth(answer: str) -> str:
    return "right" if chance("truth", answer) < 0.6 else "wrong"


def verdict(answer: str, n_before: int, errors: float, flips: float, bias: float) -> str:
    """Return the label of a judge with an error rate, a rate of answers that flip, and a bias for long answers."""
    other = {"right": "wrong", "wrong": "right"}
    label = truth(answer)
    if chance("error", answer) < errors:
        label = other[label]
    if len(answer.split()) > 12 and chance("bias", answer) < bias:
        label = "right"
    return other[label] if n_before and chance("flip", answer) < flips else label


@contextmanager
def judge(errors: float = ERRORS, flips: float = FLIPS, bias: float = 0.0) -> Iterator[tuple[ChatServer, str]]:
    """Serve a judge, and yield the server and the option of the judge."""

    def reply(prompt: str, n_before: int) -> Action:
        (answer,) = re.findall(r"REPLY<(.*)>REPLY", prompt, re.DOTALL)
        code = re.findall(r"Verdict ([0-9a-f]{8}):", prompt)[-1]
        return completion(f"Verdict {code}: {verdict(answer, n_before, errors, flips, bias)}")

    with chat_server(reply) as server:
        yield server, json.dumps({"model": "scripted", "base_url": server.base_url, **QUICK})


def answers(n: int) -> list[str]:
    return [f"answer {number} " + "word " * (number % 23) + "." for number in range(n)]


def calibrated(rows: list[dict[str, Any]], *, repeats: int = 2, **rates: float) -> JudgeCard:
    """Return the card of a scripted judge on labelled rows."""
    Path("own.yaml").write_text(RUBRIC, encoding="utf-8")
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with judge(**rates) as (_, named):
        options = ("--rubric", "own.yaml", "--judge", named, "--repeats", repeats)
        done = run_command("judges", "calibrate", "labels.jsonl", *options)
    assert done.status == 0, done.err
    return next(stored_cards(card_folder(), "scripted"))


def measure(card: JudgeCard, name: str) -> CardRow:
    row = card.measure(name)
    assert row is not None
    return row


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)


def check_rates(n: int) -> list[dict[str, Any]]:
    """Check the card of n rows, and return the rows."""
    texts = answers(n)
    rows = [{"question": f"q{number}", "answer": text, "label": truth(text)} for number, text in enumerate(texts)]
    card = calibrated(rows)
    people, judged = ([function(text) for text in texts] for function in (truth, lambda t: verdict(t, 0, ERRORS, 0, 0)))
    agreement, kappa, undecided = (measure(card, name) for name in (AGREEMENT, KAPPA, UNDECIDED))
    assert agreement.n == kappa.n == undecided.n == n
    assert agreement.value == pytest.approx(sum(map(str.__eq__, people, judged)) / n)
    assert kappa.value == pytest.approx(cohen_kappa_score(people, judged))
    assert undecided.value == pytest.approx(sum(chance("flip", text) < FLIPS for text in texts) / n)
    for row, expected in ((agreement, 1 - ERRORS), (undecided, FLIPS)):
        assert row.low < expected < row.high
    return rows


def test_a_card_reports_the_rates_of_a_scripted_judge() -> None:
    check_rates(50)


@pytest.mark.slow
def test_a_card_reports_rates_and_bias_of_a_scripted_judge_on_many_rows() -> None:
    rows = check_rates(400)
    longer = measure(calibrated(rows), "favours longer")
    assert longer.low < 0 < longer.high
    biased = calibrated(rows, errors=0, flips=0, bias=0.8)
    assert measure(biased, "favours longer").low > 0.1
    assert measure(biased, UNDECIDED).value == 0


# From results to a decision: label, fill, calibrate, gate.


def rating(prompt: str, errors: float) -> str:
    """Return the reply of a judge that rates sound answers 9 and others 3, with an error rate."""
    form = prompt.rstrip().rpartition("\n")[2]
    if not (codes := re.findall(r"\b[0-9a-f]{8}\b", form)):
        return "ready"  # the test request
    code = codes[0]
    if form.startswith("Rating"):
        answer = prompt.partition(f"[{code} answer]\n")[2].partition(f"\n[{code} end]")[0]
        is_high = ("sound" in answer) != (chance("error", answer) < errors)
        return f"Rating {code}: {9 if is_high else 3}"
    if form.startswith("Verdict"):
        return f"Verdict {code}: no"  # no refusal
    objects = {"statements": ["One."], "supported": {"1": "yes"}, "questions": ["a?", "b?", "c?"]}
    objects |= {"same": {"1": "yes", "2": "yes", "3": "no"}}
    (key,) = (name for name in objects if f'"{name}"' in form)
    return json.dumps({"id": code, key: objects[key], **({"evades": "no"} if key == "questions" else {})})


def write_answers(name: str, share: float) -> None:
    rows = [
        {
            "id": f"q{number}",
            "conversation_id": f"c{number // 2}",
            "messages": [{"role": "user", "content": f"When does ferry {number} run?"}],
            "answer": f"Ferry {number} runs in April. A {'sound' if chance(name, number) < share else 'bad'} {name}.",
            "contexts": [f"Ferry {number} runs in April."],
            "reference": "In April.",
        }
        for number in range(80)
    ]
    Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("errors", "decides"), [(0.03, True), (0.4, False)])
def test_a_judge_decides_in_the_gate_after_people_labelled_enough(errors: float, decides: bool) -> None:
    with chat_server(lambda prompt, _: completion(rating(prompt, errors))) as server:
        named = json.dumps({"model": "scripted", "base_url": server.base_url, **QUICK})
        for name, share in (("old", 0.8), ("bad", 0.1), ("same", 0.8)):
            write_answers(name, share)
            options = ("--encoder", "none", "--judge", named, "--metadata", "idk=ngrams", "--output", name)
            assert run_command("score", f"{name}.jsonl", *options).status == 0

        def gate(name: str) -> tuple[int, str]:
            done = run_command("gate", name, "--baseline", "old", "--margin", "rb_llm_raw=0.25")
            return done.status, done.out

        status, text = gate("bad")
        assert (status, "scripted, rb_llm: no card" in text) == (3, True)
        drawn = run_command("judges", "label", "old", "--rubric", "rb_llm", "--n", 60, "--output", "labels.jsonl")
        assert "60 of 80 answers" in drawn.out
        assert run_command("judges", "label", "old", "--output", "labels.jsonl").status == 1, "labels are not replaced"
        calibrate = ("judges", "calibrate", "labels.jsonl", "--rubric", "rb_llm", "--judge", named)
        assert "no label in 60 rows" in run_command(*calibrate).err
        rows = [json.loads(line) for line in Path("labels.jsonl").read_text().splitlines()]
        for row in rows:
            row["label"] = 9 if "sound" in row["answer"] else 3
        Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        assert run_command(*calibrate).status == 0
        status, text = gate("bad")
        assert (status, "no repeats (--repeats 2)" in text) == (3, True)
        assert run_command(*calibrate, "--repeats", 2).status == 0
    if decides:
        assert (gate("bad")[0], gate("same")[0]) == (1, 0)
    else:
        assert all(status == 3 and "must be above 0.4" in text for status, text in map(gate, ("bad", "same")))
