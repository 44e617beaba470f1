"""The prompt version `material_first`: prompts about one task begin alike, and are read as those before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jinja2 import Environment, meta

from ragtasks.judges import Finding, Question, Rubric, rubrics_named
from ragtasks.judges.rubrics import RUBRICS
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability
from ragtasks.suites import suite_named
from tests.judges._scripted import obedient, response

FOLDER = Path(__file__).parents[3] / "ragtasks" / "prompts" / "judges" / "material_first"
SNAPSHOTS = Path(__file__).parent / "prompts" / "material_first"
MATERIAL = {
    "task": {"code", "conversation", "question"},
    "passages": {"code", "passages"},
    "answer": {"answer", "code"},
}
ADDED = {
    "clarification": {"form"},
    "context_precision": {"code", "form", "reference"},
    "rb_llm": {"code", "form", "reference"},
    "rl_mtb": {"form"},
    "statements": {"form"},
    "support": {"code", "form", "statements"},
}
WITH_VERSION = ("clarification", "context_precision", "context_recall", "rb_llm", "rl_f", "rl_f_conversation", "rl_mtb")


def version_of(name: str) -> Rubric:
    (rubric,) = rubrics_named([name])
    assert rubric.material_first is not None
    return rubric.material_first


def texts_of(rubric: Rubric) -> list[str]:
    """Return what a judge is asked about one answer, step by step."""
    kind = Answerability.UNDERSPECIFIED if rubric.name == "clarification" else Answerability.ANSWERABLE
    step: Question | Finding = rubric.open(response(answerability=kind))
    texts = []
    while isinstance(step, Question):
        texts.append(step.text)
        step = step.read(str(obedient()(step.text, 0)))
    return texts


def rendered() -> dict[str, str]:
    return {
        f"{name}_{number}": text for name in WITH_VERSION for number, text in enumerate(texts_of(version_of(name)), 1)
    }


def test_every_part_has_exactly_its_placeholders() -> None:
    assert {path.stem for path in FOLDER.glob("*.jinja")} == {*MATERIAL, *ADDED}
    for name, expected in {**MATERIAL, **ADDED}.items():
        tree = Environment(autoescape=True).parse(shipped_template(f"judges/material_first/{name}").source)
        assert meta.find_undeclared_variables(tree) == expected, name


def test_the_others_have_one_version() -> None:
    found = {rubric.name for rubric in rubrics_named(tuple(RUBRICS.built_in)) if rubric.material_first is not None}
    assert found == set(WITH_VERSION)


@pytest.mark.parametrize("name", sorted(rendered()))
def test_prompts_are_as_they_were(name: str) -> None:
    assert rendered()[name] == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_snapshot_belongs_to_a_prompt() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(rendered())


def test_prompts_about_one_answer_begin_alike_through_all_that_both_show() -> None:
    texts = rendered()
    shown = {"rb_llm_1": "rl_mtb_1", "rl_f_1": "clarification_1"}
    ends = {"rb_llm_1": "The ferry runs from April.", "rl_f_1": "The ferry runs from April."}
    for one, other in shown.items():
        assert ends[one] in os.path.commonprefix([texts[one], texts[other]])  # noqa: RUF071 (texts, not paths)
    alike = os.path.commonprefix([texts["rl_f_2"], texts["rb_llm_1"]])  # noqa: RUF071
    assert "from April to October.\n[" in alike  # the passage
    assert "The ferry runs from April." not in texts["rl_f_2"]  # statements are held against the passages alone
    assert "to October." not in texts["rl_f_1"]  # and taken from the answer without them


def test_a_longer_conversation_goes_on_where_the_turn_before_ended() -> None:
    rubric = version_of("rb_llm")
    texts = [
        step.text
        for history, question in (
            (["Is there a ferry?", "Yes."], "When?"),
            (["Is there a ferry?", "Yes.", "When?", "In May."], "Daily?"),
        )
        if isinstance(step := rubric.open(response(history=history, question=question)), Question)
    ]
    assert "assistant]\nYes." in os.path.commonprefix(texts)  # noqa: RUF071
    assert sorted(texts) == texts  # in the order of turns


@pytest.mark.parametrize("name", WITH_VERSION)
def test_the_same_replies_are_read_to_the_same_findings(name: str) -> None:
    findings = []
    for rubric in (*rubrics_named([name]), version_of(name)):
        kind = Answerability.UNDERSPECIFIED if name == "clarification" else Answerability.ANSWERABLE
        step: Question | Finding = rubric.open(response(answerability=kind))
        while isinstance(step, Question):
            step = step.read(str(obedient()(step.text, 0)))
        findings.append(step)
    assert findings[0] == findings[1]


def test_verdicts_of_different_versions_are_told_apart() -> None:
    (ours,) = rubrics_named(["rb_llm"])
    assert ours.fingerprint != version_of("rb_llm").fingerprint


@pytest.mark.parametrize("suite", ["mtrag", "mtrag_s", "rows", "multihop_rag", "mtrag+rl_mtb"])
def test_a_suite_asks_the_version_that_is_named(suite: str) -> None:
    named = suite_named(suite)
    ours = named.rubrics_in("ours")
    other = named.rubrics_in("material_first")
    assert [rubric.name for rubric in ours] == [rubric.name for rubric in other]
    changed = {one.name for one, two in zip(ours, other, strict=True) if one.fingerprint != two.fingerprint}
    assert changed == {rubric.name for rubric in ours} & set(WITH_VERSION)


def test_rows_without_contexts_are_not_asked_for_support_in_either_version() -> None:
    answer = response()
    answer.task.extra["no_contexts"] = True  # type: ignore[index]
    for version in ("ours", "material_first"):
        rubrics = suite_named("rows").rubrics_in(version)
        (rl_f,) = (rubric for rubric in rubrics if rubric.name == "rl_f")
        assert isinstance(rl_f.open(answer), Finding)


if __name__ == "__main__":
    for name, text in rendered().items():
        (SNAPSHOTS / f"{name}.txt").write_text(text, encoding="utf-8")
