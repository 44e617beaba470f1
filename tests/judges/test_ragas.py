"""RL_F by the prompts of ragas.

The release used for the official score needs older libraries than the dev extra, so its tests run in a separate
environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from perf.official_agreement import TASK_FILES, ragas_prompts, random_cases
from perf.official_scripts import load_scripts
from ragtasks.errors import MissingExtraError
from ragtasks.judges import Verdict, VerdictOutcome
from ragtasks.judges.official import ragas_rl_f
from tests._messages import raises
from tests._shared import install
from tests.judges._scripted import ScriptedClient, response, verdicts_of

ROOT = Path(__file__).resolve().parents[2]


def judged(*replies: str) -> tuple[Verdict, ScriptedClient]:
    client = ScriptedClient(lambda _prompt, n_before: replies[n_before])
    verdicts = verdicts_of([response("It runs from April. It is red.")], [ragas_rl_f()], [client])
    return verdicts.verdict(0, "rl_f", client.name), client


def statements(*texts: str) -> str:
    return json.dumps({"statements": texts})


def said_of(*values: object) -> str:
    return json.dumps({"statements": [{"statement": "s", "reason": "r", "verdict": value} for value in values]})


@pytest.mark.network
def test_the_extra_installs_alone_and_its_tests_pass(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False, symlinks=True)
    python = tmp_path / "bin" / "python"
    install(python, f"{ROOT}[ragas]", "pytest", "hypothesis")
    # The checkout's tests with the installed package: this process's environment does not apply to them.
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    arguments = ["-m", "ragas", "-p", "no:cacheprovider", "-W", "default", str(Path(__file__).relative_to(ROOT))]
    done = subprocess.run(
        [python, "-m", "pytest", *arguments], check=False, cwd=ROOT, env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_ragas_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ragas.metrics._faithfulness", None)
    with raises(MissingExtraError):
        ragas_rl_f()


@pytest.mark.ragas
@pytest.mark.parametrize(
    ("values", "score"),
    [((1, 0), 0.5), ((1, 1), 1.0), ((0,), 0.0), ((1, 0, 0), 1 / 3), ((7, -1), 1.0)],
)
def test_the_score_is_the_share_of_returned_verdicts_that_are_not_0(values: tuple[int, ...], score: float) -> None:
    verdict, _ = judged(statements("a", "b"), f"Here:\n```json\n{said_of(*values)}\n```")
    assert verdict.value == pytest.approx(score)


@pytest.mark.ragas
def test_prompts_show_conversation_answer_and_passages_like_ragas() -> None:
    _, client = judged(statements("a"), said_of(1))
    first, second = (prompt.messages[0].content for prompt in client.asked)
    assert "user: Is there a ferry in Lindvik?\\nagent: Yes, one.\\nuser: When does it run?" in first
    assert "It is red." in first
    assert "The ferry of Lindvik runs" not in first
    assert "The ferry of Lindvik runs" in second


@pytest.mark.ragas
def test_an_answer_without_statements_has_no_second_question_and_no_value() -> None:
    verdict, client = judged(statements())
    assert (verdict.outcome, verdict.value, len(client.asked)) == (VerdictOutcome.NO_STATEMENTS, None, 1)


@pytest.mark.ragas
@pytest.mark.parametrize("odd", ["", "no JSON", said_of(), said_of("maybe"), '{"statements": 3}'])
def test_an_unparsable_reply_is_requested_again_and_then_unscored(odd: str) -> None:
    verdict, client = judged(statements("a"), odd, odd)
    assert (verdict.outcome, verdict.value, verdict.attempts) == (VerdictOutcome.UNPARSABLE, None, 2)
    assert len(client.asked) == 3


@pytest.mark.ragas
@pytest.mark.parametrize("name", TASK_FILES)
def test_prompts_and_scores_equal_those_of_ragas_itself(mtrag_checkout: Path, mtrag_root: Path, name: str) -> None:
    _, cases = random_cases(mtrag_root, name, 300)
    assert ragas_prompts(load_scripts(mtrag_checkout), cases) == (300, 300, 300, 300)


@pytest.mark.ragas
def test_a_lone_surrogate_breaks_no_prompt() -> None:
    client = ScriptedClient(lambda _prompt, n_before: (statements("a"), said_of(1))[n_before])
    verdicts = verdicts_of([response("half \ud83d", passages=["\ude00 half"])], [ragas_rl_f()], [client])
    assert verdicts.verdict(0, "rl_f", client.name).value == 1.0
