"""Differences that `scripts/same_numbers.py compare` finds between two stores."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
RESULTS = {
    "results": {"mtrag_s": {"rouge_l,sample": 0.5, "ans_acc,sample": 0.75}},
    "configs": {"mtrag_s": {"metric_list": [{"metric": "rouge_l"}, {"metric": "ans_acc"}], "prompts": "ab" * 16}},
    "date": 1.5,
    "total_evaluation_time_seconds": "3.25",
}
SAMPLE = {
    "doc_id": 0,
    "doc": {"scoring": {"idk": "no", "idk_reason": "no 0.95", "unscored": {"rl_f": "no judge was asked"}}},
    "resps": [["An answer."]],
    "metrics": ["rouge_l", "ans_acc"],
    "rouge_l": 0.5,
}
FILES = {
    "results/results_2026-11-28T18-26-10.362769.json": json.dumps(RESULTS),
    "results/samples_mtrag_s_2026-11-28T18-26-10.362769.jsonl": f"{json.dumps(SAMPLE)}\n",
    "store/bm25.trec": "q1 Q0 p1 1 9.5 bm25\nq1 Q0 p2 2 8.5 bm25\n",
    "files/gate.xml": '<suite failures="0"><case name="rouge_l" time="3"><failure message="worse"/></case></suite>',
    "printed/report.json.out": '[{"title": "Means", "rows": [{"metric": "rouge_l", "mean": {"value": 0.5}}]}]\nok\n',
    "printed/report.text.out": "| metric | score |\n| rouge_l | 0.500 |\n| ans_acc | 0.750 |\ntook 3.2 s\n",
    "printed/run.oracle.jsonl": '{"status": 0}\n',
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(SCRIPTS)
    import same_numbers

    yield same_numbers
    for name in [name for name in sys.modules if name.startswith(("same_numbers", "judge_demo_server"))]:
        del sys.modules[name]


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, *changes: tuple[str, str]) -> Path:
        for file, content in FILES.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(reduce(lambda text, change: text.replace(*change), changes, content), encoding="utf-8")
        return tmp_path / name

    return make


def kinds(script: ModuleType, before: Path, after: Path) -> Counter[str]:
    found = script.differences(script.read_values(before), script.read_values(after))
    return Counter(difference.kind for difference in found)


def test_times_and_versions_are_not_compared(
    script: ModuleType, stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = stored("before"), stored("after", ('"date": 1.5', '"date": 2.5'), ("3.2 s", "4.5 s"), ("3.25", "4"))
    for file in sorted((after / "results").iterdir()):
        file.rename(file.with_name(file.name.replace("18-26", "19-27")))
    assert script.compare(before, after) == 0
    assert "no value differs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "n_changed"),
    [
        ('"rouge_l,sample": 0.5', '"rouge_l,sample": 0.500001', 1),
        ('"rouge_l": 0.5', '"rouge_l": NaN', 1),
        ('"idk": "no"', '"idk": "yes"', 1),
        ("no 0.95", "no 0.96", 1),
        ("An answer.", "Another answer.", 1),
        ("p2 2 8.5", "p2 2 8.500001", 1),
        ('failures="0"', 'failures="1"', 1),
        ('message="worse"', 'message="not worse"', 1),
        ('"value": 0.5', '"value": 0.500001', 1),
        ("| 0.750 |", "| 0.751 |", 1),
        ('"status": 0', '"status": 1', 1),
    ],
)
def test_a_changed_value_of_every_type_of_file_is_found(
    script: ModuleType, stored: Callable[..., Path], old: str, new: str, n_changed: int
) -> None:
    assert kinds(script, stored("before"), stored("after", (old, new))) == {"changed": n_changed}


def test_a_removed_metric_changes_no_other_value(
    script: ModuleType, stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = stored("before")
    after = stored(
        *("after", (', "ans_acc,sample": 0.75', ""), (', "ans_acc"]', "]"), (', {"metric": "ans_acc"}', "")),
        *(("| ans_acc | 0.750 |\n", ""),),
    )
    assert kinds(script, before, after) == {"only before": 4}
    assert kinds(script, after, before) == {"only after": 4}
    assert script.compare(before, after) == 1
    out = capsys.readouterr().out
    assert "only before: 4 values" in out
    assert "results.*.ans_acc,sample: 1 in 1 file, such as results/results.json" in out
    (after / "store" / "bm25.trec").unlink()
    assert kinds(script, before, after) == {"only before": 5}


def test_other_words_and_other_hashes_are_listed_and_do_not_count(
    script: ModuleType, stored: Callable[..., Path]
) -> None:
    before = stored("before")
    after = stored("after", ("no judge was asked", "without judges"), ("ab" * 16, "cd" * 16), ("score |", "value |"))
    assert kinds(script, before, after) == {"wording": 1, "hash": 1}
    assert script.compare(before, after) == 0


def test_every_row_of_the_table_is_a_command_with_a_name_of_its_own(script: ModuleType) -> None:
    rows = script.commands(script.COMMANDS + script.REAL, "http://127.0.0.1:1")
    names = [name for name, _ in rows]
    assert len(set(names)) == len(names) > 100
    for name, arguments in rows:
        assert name.count(".") == 1
        filled = [argument for argument in arguments if not argument.startswith("{")]  # a judge is an object
        assert not any("{" in argument for argument in filled)
