"""The review of pairs: saved immediately with reviewer and time, tested without a browser, then in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena.store import RaterProgress, VoteStore
from ragtasks.arena.web import Identity
from ragtasks.synthesis.review import DecisionError, read_pairs
from ragtasks.synthesis.review_pages import ReviewDesk, review_application
from tests.arena.web._browser import HOSTILE, SCREENS, Rater, needs_browser
from tests.arena.web._served import LOCAL, Visitor, running
from tests.synthesis._tiny import write_dialogues


@contextmanager
def reviewing(folder: Path, *, token: str | None = None, types_names: bool = True) -> Iterator[tuple[int, ReviewDesk]]:
    """Serve the review of a benchmark in a folder."""
    store = VoteStore(folder / "reviews.sqlite")
    desk = ReviewDesk(store, read_pairs(folder))
    try:
        identity = Identity(store.secret, token, None if types_names else store)
        with running(review_application(desk, identity, LOCAL, folder.name)) as port:
            yield port, desk
    finally:
        store.close()


def hostile(folder: Path) -> Path:
    """Put markup into every text of a benchmark."""
    write_dialogues(folder, 1)
    path = folder / "conversations.jsonl"
    row = json.loads(path.read_text())
    for turn in row["turns"]:
        turn |= {key: f"{turn[key]} {HOSTILE}" for key in ("question", "answer", "rewrite")}
    path.write_text(json.dumps(row) + "\n")
    passages = [json.loads(line) for line in (folder / "passages.jsonl").read_text().splitlines()]
    text = "".join(
        json.dumps({**passage, "title": HOSTILE, "text": HOSTILE + passage["text"]}) + "\n" for passage in passages
    )
    (folder / "passages.jsonl").write_text(text)
    return folder


def decide(visitor: Visitor, number: int, choice: str, **fields: str) -> Any:
    shown = visitor.get(f"/pairs/{number}")
    version = re.search(r'name="version" value="([0-9a-f]+)"', shown.text)
    assert version, shown.text
    sent = {"choice": choice, "version": version[1], "form_token": shown.form_token, **fields}
    return visitor.post(f"/pairs/{number}", **sent)


KILLED = """
import os, signal, sys
from pathlib import Path
from ragtasks.arena.store import VoteStore
from ragtasks.synthesis.review_pages import ReviewDesk
from ragtasks.synthesis.review import read_pairs
folder = Path(sys.argv[1])
desk = ReviewDesk(VoteStore(folder / "reviews.sqlite"), read_pairs(folder))
for pair in desk.pairs:
    desk.decide("Ann", pair, "accept", {}, "")
    print(pair.pair_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no signal that kills")
def test_a_kill_loses_no_acknowledged_decision(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    acknowledged = done.stdout.split()
    with reviewing(folder) as (_, desk):
        assert acknowledged == [pair.pair_id for pair in desk.pairs]
        assert list(desk.decisions_of("Ann")) == acknowledged


def test_decisions_are_saved_immediately_with_reviewer_and_time_and_can_be_changed(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 1)
    with reviewing(folder) as (port, desk):
        ann, bob = Visitor(port), Visitor(port)
        assert ann.get("/pairs").headers["location"] == "/enter"
        ann.enter("Ann")
        bob.enter("Bob")
        assert ann.get("/pairs").headers["location"] == "/pairs/1"
        assert decide(ann, 1, "accept").headers["location"] == "/pairs?after=1"
        assert ann.get("/pairs?after=1").headers["location"] == "/pairs/2"
        texts = {"question": "what does it cost", "standalone": "what does the mill cost", "answer": "two crowns"}
        decide(ann, 2, "edit", **texts, note="too long")
        decide(bob, 1, "reject")
        decide(ann, 1, "reject")
        assert "You <strong>rejected</strong> this pair" in ann.get("/pairs/1").text
        assert "two crowns" in ann.get("/pairs/2").text
        assert "too long" in ann.get("/pairs/2").text
        assert "two crowns" not in bob.get("/pairs/2").text, "reviewers do not see each other's decisions"
        assert "2 reviewed, 1 left" in ann.get("/all").text
        assert "Ann and Bob" in ann.get("/agreement").text
        kept = desk.store.reviews()
    assert [(row[0], json.loads(row[2])["choice"]) for row in kept] == [
        ("Ann", "accept"),
        ("Ann", "edit"),
        ("Bob", "reject"),
        ("Ann", "reject"),
    ]
    with reviewing(folder) as (port, desk):
        ann.port = port
        assert ann.get("/pairs").headers["location"] == "/pairs/3", "a restarted server knows the decisions"
        decide(ann, 3, "accept")
        assert "You decided on all 3 pairs" in ann.get("/pairs").text


def test_invalid_input_is_reported_and_typed_text_is_kept(tmp_path: Path) -> None:
    with reviewing(write_dialogues(tmp_path / "b", 1), token="a long enough token") as (port, desk):
        ann = Visitor(port)
        assert ann.enter("Ann", "wrong").status == 403
        ann.enter("Ann", "a long enough token")
        refused = decide(ann, 1, "edit", question="still here", standalone="", answer="and this", note="why")
        assert refused.status == 422
        for text in ("the standalone question is empty", "still here", "and this", "why"):
            assert text in refused.text
        assert decide(ann, 1, "perhaps").status == 422
        assert decide(ann, 1, "accept", form_token="0" * 64).status == 403
        assert decide(ann, 1, "accept", version="0" * 16).status == 409
        assert ann.get("/pairs/9").status == 404
        assert ann.get("/all?start=-5").status == 200
        assert desk.store.reviews() == []


@pytest.mark.slow
@needs_browser
def test_two_reviewers_use_the_keyboard_alone_and_no_decision_is_lost(tmp_path: Path, rater: Rater) -> None:
    from selenium.webdriver.common.keys import Keys

    folder = write_dialogues(tmp_path / "b", 1)
    with reviewing(folder) as (port, desk):
        address = f"http://127.0.0.1:{port}"

        def at(number: int) -> None:
            rater.wait(f"location.pathname === '/pairs/{number}' && document.getElementById('decide')")

        rater.enter(address)
        at(1)
        rater.press("a")
        at(2)
        rater.press("e")
        rater.wait("document.activeElement.id === 'question'")
        rater.press(Keys.END, " indeed", Keys.TAB, Keys.TAB, Keys.END, " at most")
        rater.press(Keys.TAB, "checked", Keys.TAB, Keys.ENTER)
        at(3)
        rater.driver.refresh()
        at(3)
        rater.press("p")
        at(2)
        assert "You edited this pair" in rater.text
        assert "costs 0 crowns at most" in rater.text
        rater.press("n")
        at(3)
        rater.press("r")
        rater.wait("document.querySelector('h1').textContent === 'All done'")
        rater.enter(address, name="Bob")
        at(1)
        rater.press("a")
        at(2)
        rater.press("a")
        at(3)
        decisions = [(row[0], json.loads(row[2])) for row in desk.store.reviews()]
        assert [(reviewer, row["choice"]) for reviewer, row in decisions] == [
            *(("Ann", choice) for choice in ("accept", "edit", "reject")),
            *(("Bob", choice) for choice in ("accept", "accept")),
        ]
        assert decisions[1][1]["note"] == "checked"
        assert decisions[1][1]["texts"]["question"].endswith(" indeed")
        assert rater.console == []


@pytest.mark.slow
@needs_browser
def test_review_pages_fit_both_screens_and_no_text_becomes_markup(tmp_path: Path, rater: Rater) -> None:
    with reviewing(hostile(tmp_path / "b")) as (port, _):
        address = f"http://127.0.0.1:{port}"
        rater.enter(address)
        rater.wait("document.getElementById('decide')")
        assert HOSTILE[:20] in rater.text
        rater.press("r")
        rater.wait("location.pathname === '/pairs/2'")
        violations = {}
        for path in ("/pairs/1", "/pairs/2?edit=1", "/all", "/agreement"):
            rater.driver.get(address + path)
            for size, theme in zip(SCREENS, ("light", "dark"), strict=True):
                rater.screen(*size, theme)
                violations[path, theme] = (rater.serious(), rater.is_too_wide)
        assert {key: value for key, value in violations.items() if value != ([], False)} == {}
        assert rater.run("return [window.harmed, document.images.length]") == [None, 0]
        assert rater.console == []


def test_a_missing_extra_is_one_line_with_the_next_step() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; from ragtasks.cli import main; main(['arena', 'serve', 'a', 'b'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "arena", "serve", "a", "b"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "pip install 'ragtasks[arena]'" in done.stderr


def test_a_reviewer_gets_the_remaining_pairs_in_benchmark_order(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 2))
    store = VoteStore(tmp_path / "reviews.sqlite")
    desk = ReviewDesk(store, pairs)
    assert [desk.pair(number) for number in (0, 1, len(pairs), len(pairs) + 1, -1)] == [
        *(None, pairs[0], pairs[-1], None, None),
    ]
    assert desk.next_for("ann") == pairs[0]
    assert desk.next_for("ann", after=2) == pairs[2]
    desk.decide("ann", pairs[2], "accept", {}, " a note ")
    assert desk.next_for("ann", after=2) == pairs[3]
    assert desk.next_for("bob", after=2) == pairs[2], "each reviewer decides on all"
    for pair in pairs[3:]:
        desk.decide("ann", pair, "reject", {}, "")
    assert desk.next_for("ann", after=2) == pairs[0], "what was passed over comes again at the end"
    assert desk.standing("ann") == RaterProgress(len(pairs) - 2, 2)
    assert desk.standing("bob") == RaterProgress(0, len(pairs))
    for pair in pairs[:2]:
        desk.decide("ann", pair, "accept", {}, "")
    assert desk.next_for("ann") is None
    store.close()


def test_decisions_of_all_reviewers_are_restored_and_those_on_other_texts_counted(tmp_path: Path) -> None:
    pairs = read_pairs(write_dialogues(tmp_path / "b", 1))
    store = VoteStore(tmp_path / "reviews.sqlite")
    desk = ReviewDesk(store, pairs)
    desk.decide("bob", pairs[1], "reject", {}, "why")
    desk.decide("ann", pairs[1], "accept", {}, "")
    desk.decide("ann", pairs[0], "accept", {}, "")
    last = desk.decide("ann", pairs[0], "reject", {}, "")
    store.save_review("ann", pairs[2].pair_id, "{}", 1.0)
    again = ReviewDesk(store, pairs)
    assert (desk.n_others, again.n_others) == (0, 1)
    for review_desk in (desk, again):
        reviews = [(review.pair_id, review.reviewer, review.decision.choice) for review in review_desk.reviews()]
        assert reviews[0] == (pairs[0].pair_id, "ann", "reject"), "in the order of the pairs"
        assert sorted(reviews[1:]) == [(pairs[1].pair_id, "ann", "accept"), (pairs[1].pair_id, "bob", "reject")]
        assert review_desk.decisions_of("ann")[pairs[0].pair_id] == last
        assert review_desk.decisions_of("nobody") == {}
    assert again.decisions_of("bob")[pairs[1].pair_id].decision.note == "why"
    with pytest.raises(DecisionError):
        again.decide("ann", pairs[2], "maybe", {}, "")
    assert len(store.reviews()) == 5, "what is no decision is not kept"
    store.close()
