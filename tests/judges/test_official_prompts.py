"""The official wording is read from source that is never run; here from files of the described shape, in our words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.judges.official_prompts import OfficialPrompt, official_prompts, official_rubrics
from ragtasks.judges.panel import judge
from ragtasks.judges.question import Question
from ragtasks.judges.verdicts import VerdictOutcome
from ragtasks.records import Answerability
from tests.judges._scripted import ScriptedClient, response

FILLER = "These words of ours only make the text as long as a prompt is. " * 4

UTILS = f'''
"""A docstring with rating, faithful, appropriate, complete, decision and {{answer}}. {FILLER}"""
raise SystemExit("never run")

IDK_PROMPT = """Sort by yes, no, partial. {FILLER}
[Inquiry] {{inquiry}}
[Response] {{response}}
[Output]"""

CLARIFY = """Is a clarification asked for? {FILLER} Reply with {{{{"decision": "yes"}}}} or {{{{"decision": "no"}}}}.
{{question}} {{prediction}}"""

UNRELATED = "faithful appropriate complete rating {{answer}}"
'''
WRAPPER = f'''
def build(self, history, question, item, contexts):
    """Say faithful, appropriate, complete, rating. {FILLER}"""
    return (
        f"Give a rating for a faithful, appropriate and complete answer. {FILLER}"
        f"History: {{history}} Question: {{question}}"
    ) + f" Passages: {{' '.join(contexts)}} Reference: {{item['reference_answer']}}" + item.model_response + " End."
'''


def checkout(root: Path, *, utils: str = UTILS, wrapper: str = WRAPPER) -> Path:
    folder = root / "scripts" / "evaluation"
    folder.mkdir(parents=True)
    (folder / "judge_utils.py").write_text(utils, encoding="utf-8")
    (folder / "judge_wrapper.py").write_text(wrapper, encoding="utf-8")
    return root


def test_prompts_are_found_by_their_words_and_say_where(tmp_path: Path) -> None:
    found = official_prompts(checkout(tmp_path))
    assert set(found) == {"rb_llm", "idk", "clarification"}
    assert {name: prompt.where.split(",")[0] for name, prompt in found.items()} == {
        "rb_llm": "judge_wrapper.py",
        "idk": "judge_utils.py",
        "clarification": "judge_utils.py",
    }
    assert found["rb_llm"].places() == ["conversation", "question", "passages", "reference", "answer"]
    assert found["idk"].places() == ["question", "answer"]


def test_prompt_is_filled_with_the_response(tmp_path: Path) -> None:
    rubrics = official_rubrics(checkout(tmp_path), ["rb_llm", "idk", "clarification"], profile="paper")
    judged = response("Ask {question} again?", answerability=Answerability.UNDERSPECIFIED, passages=("one", "two"))
    steps = [rubric.open(judged) for rubric in rubrics]
    texts = [step.text for step in steps if isinstance(step, Question)]
    assert "History: user: Is there a ferry in Lindvik?\nagent: Yes, one. Question: When does it run?" in texts[0]
    assert "Passages: one\n\ntwo Reference: From April to October.Ask {question} again? End." in texts[0]
    assert "[Inquiry] When does it run?\n[Response] Ask {question} again?\n[Output]" in texts[1]
    assert 'Reply with {"decision": "yes"} or {"decision": "no"}.\nWhen does it run? Ask {question}' in texts[2]


def answers(prompt: str) -> str:
    if "Give a rating" in prompt:
        return "Rating: [[9]]\nOnly 3 out of 10 claims took a second look."
    return "**Yes**" if "[Inquiry]" in prompt else 'First {"decision": "yes"}, no: {"decision": "no"}'


@pytest.mark.parametrize(
    ("profile", "values", "idk_outcome"),
    [("paper", [0.9, 1.0, 0.0], VerdictOutcome.GIVEN), ("ibm", [0.3, None, 1.0], VerdictOutcome.UNPARSABLE)],
)
def test_profiles_read_the_same_replies_each_in_its_way(
    tmp_path: Path, profile: str, values: list[float | None], idk_outcome: VerdictOutcome
) -> None:
    names = ["rb_llm", "idk", "clarification"]
    rubrics = official_rubrics(checkout(tmp_path), names, profile=profile)
    judged = response(answerability=Answerability.UNDERSPECIFIED)
    verdicts = judge([judged], rubrics, [ScriptedClient(lambda prompt, _: answers(prompt))])
    assert [verdicts.scores(name)[0].value for name in names] == values
    assert verdicts.verdict(0, "idk", "scripted").outcome is idk_outcome


def test_clarification_is_asked_of_underspecified_questions_only(tmp_path: Path) -> None:
    (rubric,) = official_rubrics(checkout(tmp_path), ["clarification"], profile="ibm")
    verdicts = judge([response()], [rubric], [ScriptedClient(lambda *_: "x")])
    assert verdicts.all()[0].outcome is VerdictOutcome.NOT_ASKED


def test_second_attempt_points_to_the_form_above(tmp_path: Path) -> None:
    (rubric,) = official_rubrics(checkout(tmp_path), ["rb_llm"], profile="paper")
    client = ScriptedClient(lambda _, n_before: "Rating: 7" if n_before else "fine")
    assert judge([response()], [rubric], [client]).scores("rb_llm")[0].value == 0.7
    assert client.asked[1].messages[0].content.rstrip().endswith("exactly as stated above.")


def test_no_checkout_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no Python file") as caught:
        official_rubrics(tmp_path, ["idk"], profile="paper")
    assert "next step" in str(caught.value)


@pytest.mark.parametrize(
    ("utils", "fault"),
    [
        ("x = 1", "no text that fits"),
        (UTILS.replace("{inquiry}", "{thing}"), "what goes in at thing"),
        (UTILS + UTILS.replace("Sort by", "Order by"), "several texts that fit: judge_utils.py, line"),
        ("def broken(:", "judge_utils.py: invalid syntax"),
        ("# \0", "judge_utils.py: source code string cannot contain null bytes"),
    ],
)
def test_a_prompt_that_is_not_there_or_not_clear_is_never_guessed(tmp_path: Path, utils: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match="official prompt of") as caught:
        official_rubrics(checkout(tmp_path, utils=utils), ["idk"], profile="paper")
    assert fault in str(caught.value)


def test_the_same_text_twice_is_one_prompt(tmp_path: Path) -> None:
    assert official_prompts(checkout(tmp_path, utils=UTILS + UTILS))["idk"].places() == ["question", "answer"]


@pytest.mark.parametrize(("names", "profile"), [(["rl_f"], "paper"), (["idk"], "other")])
def test_unknown_names_are_refused(tmp_path: Path, names: list[str], profile: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rl_f|other"):
        official_rubrics(checkout(tmp_path), names, profile=profile)


def test_text_is_the_words_without_the_places() -> None:
    assert OfficialPrompt("f.py, line 1", ("a", "b")).text == "ab"
