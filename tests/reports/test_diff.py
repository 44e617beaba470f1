"""Differences between two results files: causes of incomparable scores, and differences of means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.reports.history import read_file
from ragtasks.reports.history_output import EntryPair, diff_entries
from ragtasks.results import CAUSES, DECISIVE, causes_of
from tests._messages import raises
from tests.reports._saved import TASKS, facts, save, scoring, top
from tests.reports.test_history import command


def pair_of(first: Path, second: Path) -> EntryPair:
    (pair,) = diff_entries(read_file(first), read_file(second)).pairs
    return pair


@pytest.mark.parametrize(
    ("change", "field", "cause"),
    [
        (facts(benchmark="mtrag (sample)"), "benchmark", "data"),
        (facts(revision="0000000"), "data revision", "data"),
        (scoring(encoder="none"), "encoder", "encoder"),
        (scoring(rescaled=True), "rescaled", "encoder"),
        (scoring(retriever={"line": "bm25 k1=2"}), "retriever", "retriever"),
        (scoring(idk_detector="judge j"), "idk detector", "judges"),
        (scoring(judges="j"), "judges", "judges"),
        (scoring(judge_prompts="official"), "judge prompts", "prompts"),
        (scoring(rubrics={"rl_f": "faithfulness (01)"}), "rubrics", "prompts"),
        (
            facts(prompts={"system": "generation/system (ab)", "plain": "generation/plain (bb)"}),
            "system prompt",
            "prompts",
        ),
        (facts(prompts={"system": "generation/system (aa)", "plain": "mine (bb)"}), "plain prompt", "prompts"),
        (top(system_instruction_sha="e3"), "system instruction", "prompts"),
        (facts(configuration={"run": "official", "max_words": 50}), "max_words", "prompts"),
        (facts(fingerprint="44"), "requests", None),
        (facts(configuration={"run": "bm25", "data": "/home/someone/private"}), "run", None),
        (top(lm_eval_version="0.5"), "harness version", None),
        (top(git_hash="def"), "git commit", None),
    ],
)
def test_a_field_that_differs_is_named_and_decides_by_its_cause(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], field: str, cause: str | None
) -> None:
    first, second = save(tmp_path / "a"), save(tmp_path / "b", change=change)
    pair = pair_of(first, second)
    # Another run shows in the model's name and in the configuration too.
    assert set(pair.fields) - {"model", "configuration"} == {field}
    assert pair.causes == ([cause] if cause else [])
    status, text = command("show", first, second)
    assert status == (1 if cause else 0)
    assert f"\nnot comparable: different {cause}\n" in text if cause else "\ncomparable\n" in text
    assert field in text


def test_harmless_differences_are_listed_with_comparable_scores(tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        results["chat_template"] = ""
        results["configs"]["mtrag_reference"]["generation_kwargs"] = {"temperature": 0.5}

    status, text = command("show", save(tmp_path / "a"), save(tmp_path / "b", change=change))
    assert status == 0
    assert "\ncomparable, but requested with different chat template applied, generation options\n" in text


def test_scores_of_another_version_are_named_as_such(tmp_path: Path) -> None:
    files = [save(tmp_path / name, change=scoring(scored_by=f"ragtasks {name}")) for name in ("0.1.0", "0.2.0")]
    status, text = command("show", *files)
    assert status == 0
    assert "\ncomparable, but scored by different versions of ragtasks\n" in text


def test_a_prompt_is_equal_in_any_folder(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / home, change=facts(prompts={"system": f"/home/{home}/mine.jinja (cc)", "plain": "p (bb)"}))
        for home in ("one", "two")
    ]
    assert pair_of(*paths).fields == {}


def test_other_tasks_are_other_data(tmp_path: Path) -> None:
    shorter = pair_of(save(tmp_path / "a"), save(tmp_path / "b", tasks=TASKS[:3]))
    others = pair_of(save(tmp_path / "c"), save(tmp_path / "d", tasks=(*TASKS[:3], ("c", 1))))
    for pair in (shorter, others):
        assert list(pair.fields) == ["tasks"]
        assert pair.causes == ["data"]


def test_causes_cover_every_decisive_field() -> None:
    assert causes_of(DECISIVE) == [*CAUSES] == ["data", "encoder", "retriever", "judges", "prompts"]
    assert causes_of(["run", "requests"]) == []


def test_models_compare_and_differences_are_second_minus_first(tmp_path: Path) -> None:
    first = save(tmp_path / "a", "org/A", values=lambda _: {"rb_alg": 0.5, "idk_yes": None, "rouge_l": 0.25})
    second = save(tmp_path / "b", "org/B", values=lambda _: {"rb_alg": 0.25, "idk_yes": 1.0, "empty": 0.0})
    pair = pair_of(first, second)
    values = {name: tuple(mean and mean.value for mean in both) for name, both in pair.means.items()}
    assert values == {"rb_alg": (0.5, 0.25), "idk_yes": (None, 1.0), "rouge_l": (0.25, None), "empty": (None, 0.0)}
    status, text = command("show", first, second)
    assert status == 0
    assert "# org/A: mtrag, reference  ->  org/B: mtrag, reference" in text
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| rb_alg")]
    assert rows == [["", "rb_alg", "0.500", "0.250", "-0.250", ""]]
    assert "ragtasks compare" in text


def test_a_file_has_no_differences_from_itself(tmp_path: Path) -> None:
    path = save(tmp_path)
    status, text = command("show", path, path)
    assert status == 0
    assert "provenance: no differences" in text


def test_equal_settings_are_compared_and_others_are_listed(tmp_path: Path) -> None:
    def both(folder: Path, *settings: str) -> list[Any]:
        return [entry for name in settings for entry in read_file(save(folder / name, setting=name))]

    first, second = both(tmp_path / "a", "reference", "full_rag"), both(tmp_path / "b", "reference_rag", "full_rag")
    found = diff_entries(first, second)
    assert [(pair.first.setting, pair.second.setting) for pair in found.pairs] == [("full_rag", "full_rag")]
    assert [entry.setting for entry in found.only_first] == ["reference"]
    assert [entry.setting for entry in found.only_second] == ["reference_rag"]
    assert found.comparable
    # If each file has one entry, these two are compared. Another setting has other tasks.
    assert not diff_entries(first[:1], second[:1]).comparable
    with raises(ConfigurationError):
        diff_entries(first[:1], second)
