"""A user's rubric in a YAML file: its prompt, its strict parser, and the errors of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.clients import Outcome, Reply
from ragtasks.errors import ConfigurationError
from ragtasks.judges import VerdictOutcome, pair_of, rubric_of
from tests._messages import raises
from tests.judges._scripted import ScriptedClient, code_in, form_of, response, verdicts_of

PROMPT = "Asked: {{ question }}\n  Answer: {{ answer }}\n  Is it polite?"


def file_of(folder: Path, text: str, name: str = "polite.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def rubric_file(folder: Path, prompt: str = PROMPT, labels: str = "{good: 1, bad: 0}") -> str:
    return file_of(folder, f"prompt: |\n  {prompt}\nlabels: {labels}\n")


def verdict_of(folder: Path, reply: str, labels: str = "{good: 1, bad: 0}") -> tuple[str | None, float | None]:
    """Return label and value of a judge that gives one reply; CODE stands for the code of the prompt."""
    client = ScriptedClient(lambda prompt, _: reply.replace("CODE", code_in(prompt)))
    verdict = verdicts_of([response()], [rubric_of(rubric_file(folder, labels=labels))], [client]).all()[0]
    assert (verdict.outcome is VerdictOutcome.GIVEN) == (verdict.label is not None)
    return verdict.label, verdict.value


def test_the_prompt_shows_the_variables_and_ends_with_the_form(tmp_path: Path) -> None:
    prompt = (
        "{% for turn in history %}{{ turn.speaker }}: {{ turn.text }}\n  {% endfor %}"
        "{{ question }} {{ answer }} {{ reference }} {{ contexts[0] }}"
    )
    rubric = rubric_of(rubric_file(tmp_path, prompt))
    assert (rubric.name, rubric.needs) == ("polite", ("contexts", "reference"))
    text = rubric.open(response()).text
    assert text.startswith("User: Is there a ferry in Lindvik?\nAssistant: Yes, one.\n")
    assert "When does it run? The ferry runs from April. From April to October. The ferry of Lindvik" in text
    assert "LABEL being good or bad:\nVerdict " in text
    assert form_of(text) == f"Verdict {code_in(text)}: LABEL"


def test_a_structured_reply_has_one_of_the_labels(tmp_path: Path) -> None:
    question = rubric_of(rubric_file(tmp_path)).open(response())
    code = code_in(question.text)
    assert question.schema["properties"]["last_line"]["enum"] == [f"Verdict {code}: good", f"Verdict {code}: bad"]
    assert question.read(f'{{"reasoning": "Rude.", "last_line": "Verdict {code}: bad"}}').label == "bad"


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("It greets.\nVerdict CODE: good", "good"),
        ("**Verdict CODE: Good.**", "good"),
        ("Verdict CODE: LABEL\nVerdict CODE: bad", "bad"),
        ("Verdict 00000000: good", None),
        ("good", None),
        ("Verdict CODE: goodish", None),
        ("Verdict CODE: good or bad", None),
        ("Verdict CODE: good\nNo.\nVerdict CODE: bad", None),
    ],
)
def test_only_one_clear_label_is_a_verdict(tmp_path: Path, reply: str, label: str | None) -> None:
    assert verdict_of(tmp_path, reply)[0] == label


def test_a_truncated_reply_is_no_verdict(tmp_path: Path) -> None:
    client = ScriptedClient(lambda *_: Reply(Outcome.TRUNCATED, None, reason="the limit was reached"))
    verdict = verdicts_of([response()], [rubric_of(rubric_file(tmp_path))], [client]).all()[0]
    assert verdict.outcome is VerdictOutcome.TRUNCATED


def test_labels_are_texts_and_scores_are_shares_of_their_range(tmp_path: Path) -> None:
    labels = "{yes: 5, partly: 3, no: 1}"
    assert verdict_of(tmp_path, "Verdict CODE: yes", labels) == ("yes", 1)
    assert verdict_of(tmp_path, "Verdict CODE: partly", labels) == ("partly", 0.5)
    assert verdict_of(tmp_path, "Verdict CODE: no", labels) == ("no", 0)


def test_another_prompt_or_score_has_another_fingerprint(tmp_path: Path) -> None:
    prints = {
        rubric_of(rubric_file(tmp_path)).fingerprint,
        rubric_of(rubric_file(tmp_path, labels="{good: 1, bad: 0, ugly: 0.5}")).fingerprint,
        rubric_of(rubric_file(tmp_path, PROMPT + " Really?")).fingerprint,
    }
    assert len(prints) == 3


def test_a_template_may_use_functions_of_jinja(tmp_path: Path) -> None:
    prompt = "{% for n in range(2) %}{{ loop.index }} {{ answer }} {% endfor %}"
    text = rubric_of(rubric_file(tmp_path, prompt)).open(response("So.")).text
    assert text.startswith("1 So. 2 So. ")


def test_a_template_of_a_pair_shows_the_second_answer(tmp_path: Path) -> None:
    rubric = rubric_of(rubric_file(tmp_path, "{{ answer }} or {{ answer_2 }}?", "{one: 1, tie: 0, two: -1}"))
    assert rubric.needs == ("answer_2",)
    assert rubric.open(pair_of(response("First."), response("Second."))).text.startswith("First. or Second.?")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prompt: [",
        f"prompt: |\n  {PROMPT}\n",
        "labels: {good: 1, bad: 0}\n",
        f"prompt: |\n  {PROMPT}\nlabels: {{good: 1, bad: 0}}\nscores: 3\n",
    ],
)
def test_a_file_with_other_keys_is_an_error(tmp_path: Path, text: str) -> None:
    with raises(ConfigurationError):
        rubric_of(file_of(tmp_path, text))


@pytest.mark.parametrize(
    ("prompt", "labels"),
    [
        (PROMPT, "{}"),
        (PROMPT, "{good: 1}"),
        (PROMPT, "{good: 1, bad: 1}"),
        (PROMPT, "{good: 1, bad: worse}"),
        (PROMPT, "{good: 1, good: 0}"),
        (PROMPT, "{yes: 1, true: 0.5, no: 0}"),
        (PROMPT, "[good, bad]"),
        (PROMPT, "{good: 1, bad.: 0}"),
        (PROMPT, "{good: 1, Good enough: 0}"),
        ("{{ answer }} {{ anwser }}", "{good: 1, bad: 0}"),
        ("{{ question }}", "{good: 1, bad: 0}"),
        ("{{ answer", "{good: 1, bad: 0}"),
        ("{{ answer }} {{ answer_2 }}", "{one: 1, tie: 0.9, two: 0}"),
    ],
)
def test_a_rubric_that_cannot_work_is_an_error(tmp_path: Path, prompt: str, labels: str) -> None:
    with raises(ConfigurationError):
        rubric_of(rubric_file(tmp_path, prompt, labels))


def test_an_unknown_name_or_the_name_of_a_shipped_rubric_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="rl_f"):
        rubric_of("rl_ff")
    with pytest.raises(ConfigurationError, match="no such file"):
        rubric_of(str(tmp_path / "missing.yaml"))
    rubric_file(tmp_path)
    (tmp_path / "polite.yaml").rename(tmp_path / "idk.yaml")
    with pytest.raises(ConfigurationError, match="shipped rubric"):
        rubric_of(str(tmp_path / "idk.yaml"))


def test_shipped_rubrics_are_found_by_name() -> None:
    assert [rubric_of(name).name for name in ("rl_f", "idk", "pairwise")] == ["rl_f", "idk", "pairwise"]
    assert rubric_of("rb_llm").needs == ("contexts", "reference")
