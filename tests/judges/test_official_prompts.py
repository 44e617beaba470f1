"""Official prompts: the text sent to a judge equals that of the official scripts; anything else is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perf.official_agreement import (
    TASK_FILES,
    HashedJudge,
    conditioned_agreement,
    odd_replies,
    prompt_agreement,
    random_cases,
)
from perf.official_scripts import Scripts, load_scripts
from ragtasks.errors import ConfigurationError
from ragtasks.judges import VerdictOutcome
from ragtasks.judges.official import FOLDER, official_rubrics
from ragtasks.records import Answerability
from tests._messages import raises
from tests.judges._scripted import response, verdicts_of

NAMES = ("rb_llm", "idk", "clarification")
N_TASKS = 300
"""Of each benchmark."""


@pytest.fixture(scope="module")
def scripts(mtrag_checkout: Path) -> Scripts:
    return load_scripts(mtrag_checkout)


@pytest.mark.parametrize("name", TASK_FILES)
def test_prompts_equal_those_of_the_scripts_byte_by_byte(
    scripts: Scripts, mtrag_checkout: Path, mtrag_root: Path, name: str
) -> None:
    _, cases = random_cases(mtrag_root, name, N_TASKS)
    n_asked = sum(case.response.task.answerability is Answerability.UNDERSPECIFIED for case in cases)
    assert (n_asked > 0) is (name == "mtrag_un")
    assert prompt_agreement(scripts, mtrag_checkout, cases) == {
        "rb_llm": (N_TASKS, N_TASKS),
        "idk": (N_TASKS, N_TASKS),
        "clarification": (n_asked, n_asked),
    }


@pytest.mark.parametrize("name", TASK_FILES)
def test_columns_of_the_ibm_profile_equal_the_scores_of_the_scripts(
    scripts: Scripts, mtrag_checkout: Path, mtrag_root: Path, name: str
) -> None:
    benchmark, cases = random_cases(mtrag_root, name, N_TASKS, seed=1)
    found = conditioned_agreement(scripts, mtrag_checkout, benchmark, cases, odd_replies(500))
    assert found == dict.fromkeys(("rb_llm_ibm", "rl_f_ibm", "rb_alg_ibm"), (N_TASKS, N_TASKS))


def test_one_reply_is_parsed_in_both_profiles_and_requested_again_in_one(mtrag_checkout: Path) -> None:
    client = HashedJudge(["I am **unsure**; 3 out of 10 claims took a second look."])
    rubrics = official_rubrics(mtrag_checkout, NAMES)
    assert [rubric.name for rubric in rubrics] == [f"{name}{end}" for name in NAMES for end in ("", "_ibm")]
    verdicts = verdicts_of([response(answerability=Answerability.UNDERSPECIFIED)], rubrics, [client])
    found = {item.rubric: (item.outcome, item.label, item.value, item.attempts) for item in verdicts.all()}
    for name, label, value in (("rb_llm", "3", 0.3), ("idk", "partial", 0.5), ("clarification", "undecided", 0.5)):
        assert found[name] == (VerdictOutcome.UNPARSABLE, None, None, 2)
        assert found[f"{name}_ibm"] == (VerdictOutcome.GIVEN, label, value, 1)


def test_a_reply_that_the_scripts_label_unknown_is_an_answer_without_a_value(mtrag_checkout: Path) -> None:
    _, rubric = official_rubrics(mtrag_checkout, ["idk"])
    (found,) = verdicts_of([response()], [rubric], [HashedJudge(["**Yes**"])]).all()
    assert (found.outcome, found.label, found.value, found.attempts) == (VerdictOutcome.GIVEN, "unknown", None, 1)


def test_other_prompts_are_not_read(mtrag_checkout: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    shutil.copy(mtrag_checkout / FOLDER / "judge_utils.py", tmp_path / FOLDER)
    assert len(official_rubrics(tmp_path, ["rb_llm", "idk"])) == 4
    with raises(ConfigurationError):
        official_rubrics(tmp_path, ["clarification"])


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("rb_llm", "judge_utils.py", lambda text: text.replace("impartial judge", "impartial  judge", 1)),
        ("rb_llm", "judge_utils.py", lambda text: text.replace("{row['response']}", "{row['reference_answer']}")),
        ("rb_llm", "judge_utils.py", lambda text: text.replace("{row['response']}", "{row['response']!r}")),
        ("idk", "judge_utils.py", lambda text: text.replace("{inquiry}", "{question}")),
        ("clarification", "underspecified_eval.py", lambda text: text.replace("{{ response }}", "{{ inquiry }}")),
    ],
)
def test_another_wording_is_refused(
    mtrag_checkout: Path, tmp_path: Path, name: str, file: str, change: Callable[[str], str]
) -> None:
    text = (mtrag_checkout / FOLDER / file).read_text(encoding="utf-8")
    assert change(text) != text
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / file).write_text(change(text), encoding="utf-8")
    with raises(ConfigurationError):
        official_rubrics(tmp_path, [name])


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("rb_llm", "def broken(:", "invalid syntax"),
        ("rb_llm", "# \0", "null bytes"),
        ("idk", "raise SystemExit('never run')", "no text under the name format_idk_judge"),
        ("idk", "def format_idk_judge(df):\n    return [f'{inquiry} {response}']", "a different text under the name"),
        ("clarification", "UNDERSPECIFIED_PROMPT = '{{ response }}'", "a different text under the name"),
        ("clarification", "OTHER = UNDERSPECIFIED_PROMPT = 3", "a different text under the name"),
    ],
)
def test_a_file_without_the_prompt_is_refused_with_one_clear_error(
    tmp_path: Path, name: str, source: str, found: str
) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    for file in ("judge_utils.py", "underspecified_eval.py"):
        (tmp_path / FOLDER / file).write_text(source, encoding="utf-8")
    with raises(ConfigurationError):
        official_rubrics(tmp_path, [name])


def test_a_missing_checkout_is_refused_with_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"FileNotFoundError") as caught:
        official_rubrics(tmp_path, NAMES)
    assert str(tmp_path / FOLDER / "judge_utils.py") in str(caught.value)


def test_an_error_names_the_commit_of_another_checkout(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "judge_utils.py").write_text("def format_idk_judge(df):\n    return [f'{inquiry}']")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:IBM/mt-rag-benchmark.git\n')
    (tmp_path / ".git" / "HEAD").write_text(f"{'0123456789' * 4}\n")
    with raises(ConfigurationError):
        official_rubrics(tmp_path, ["idk"])
