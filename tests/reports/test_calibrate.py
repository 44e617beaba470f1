"""`ragtasks judges calibrate` with labels of people, a loopback server as the judge, and stored cards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragtasks.judges import latest_card, rubric_of
from tests._commands import run_command
from tests.clients._server import chat_server, completion, refusal

SERVER = Path(__file__).resolve().parents[2] / "scripts" / "judge_demo_server.py"
ROWS = "question,answer,contexts,label_ann,label_bob\n" + "".join(
    f"Item {n}?,{'Yes.' if n % 3 else 'I do not know.'},[],{'good' if n % 3 else 'bad'},{'good' if n % 4 else 'bad'}\n"
    for n in range(1, 25)
)
RUBRIC = """\
prompt: |
  Question: {{ question }}
  Answer: {{ answer }}
  Is the answer useful?
labels: {good: 1, bad: 0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    (tmp_path / "labels.csv").write_text(ROWS)
    (tmp_path / "useful.yaml").write_text(RUBRIC)
    return tmp_path


def reply_of(prompt: str) -> str:
    form = prompt.rstrip().rpartition("\n")[2]
    return form.replace("LABEL", "bad" if "I do not know" in prompt else "good")


def test_a_rubric_of_ones_own_gets_a_card_which_is_stored(folder: Path) -> None:
    with chat_server(lambda prompt, _: completion(reply_of(prompt))) as server:
        judge = json.dumps({"model": "mine", "base_url": server.base_url})
        line = ["judges", "calibrate", folder / "labels.csv", "--judge", judge, "--rubric", folder / "useful.yaml"]
        done = run_command(*line, "--repeats", "2", "--format", "json")
        again = run_command(*line)
    assert (done.status, again.status) == (0, 0), done.err + again.err
    table = {row["measure"]: row["value"]["value"] for row in json.loads(done.out)[0]["tables"][0]["rows"]}
    assert table["agreement"] == pytest.approx((24 + 14) / 48)
    assert table["agreement of two people"] == pytest.approx(14 / 24)
    assert table["undecided"] == 0
    assert "tokens a prompt" in again.out, "all replies are cached: the cost is that of the earlier card"
    card = latest_card(
        folder / "store" / "judge_cards", "mine", {"useful": rubric_of(str(folder / "useful.yaml")).fingerprint}
    )
    assert card.data == "labels.csv, 24 rows"
    assert card.measure("kappa").low is not None


def test_a_judge_without_verdicts_fails_after_the_tables_and_has_no_card(folder: Path) -> None:
    with chat_server(lambda *_: refusal(400, "not today")) as server:
        judge = json.dumps({"model": "mute", "base_url": server.base_url})
        done = run_command(
            "judges", "calibrate", folder / "labels.csv", "--judge", judge, "--rubric", folder / "useful.yaml"
        )
    assert done.status == 1
    assert "no verdict on 100% of 24 answers" in done.out
    assert "mute, useful: 0 of 24" in done.err
    assert not list(folder.rglob("mute*.json"))


def test_impossible_arguments_are_refused_before_a_request(folder: Path) -> None:
    judge = '{"model": "m", "base_url": "http://127.0.0.1:9/v1"}'
    labels = folder / "labels.csv"
    for line, reason in {
        (labels, "--judge", judge): "for the rubric pairwise",
        (labels, "--judge", judge, "--rubric", "idk"): "one of yes, partial, no",
        (labels, "--judge", judge, "--rubric", "rl_fff"): "did you mean 'rl_f'",
        (labels, "--judge", judge, "--rubric", "idk", "--keys", "lable=x"): "did you mean 'label'",
        (folder / "none.csv", "--judge", judge): "none.csv",
        (labels, "--judge", "mtrag-un-official,base_url=http://127.0.0.1:9/v1"): "a preset has the official prompts",
    }.items():
        done = run_command("judges", "calibrate", *line)
        assert done.status == 1
        assert reason in done.err


def test_a_broken_judge_is_refused_without_showing_it(folder: Path) -> None:
    judge = '{"model": "m", "base_url": "http://u:hunter2@h"'
    done = run_command("judges", "calibrate", folder / "labels.csv", "--judge", judge)
    assert done.status == 1
    assert "hunter2" not in done.out + done.err


@pytest.mark.slow
def test_ragcheckers_pairs_are_judged_in_both_orders(
    mtrag_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mtrag_root.parent / "ragchecker" / "human_labeled_data.json"
    if not path.is_file():
        pytest.skip(f"no real RAGChecker data at {path}")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        judge = json.dumps({"model": "steady", "base_url": server.stdout.readline().strip() + "/v1"})
        done = run_command("judges", "calibrate", path, "--judge", judge)
    finally:
        server.kill()
        server.communicate()
    assert done.status == 0, done.err
    text = re.sub(" +", " ", done.out)
    assert "| pairwise | agreement of two people | 0.671 [" in text
    assert "| pairwise | another verdict in the other order | 0.714 [" in text
    assert "| pairwise | without a verdict | 0.000 | 560 |" in text
