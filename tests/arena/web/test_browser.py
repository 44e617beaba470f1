"""The arena in a real browser: a blinded vote, undo, skip, keyboard only, a narrow screen, hostile texts, axe's rules.

Requires Chromium and its driver. The console must stay empty.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.arena.battles import Answer, AnswerPool
from ragtasks.records import Message, Role
from tests.arena._made import answer
from tests.arena.web._browser import HOSTILE, SCREENS, Rater, needs_browser
from tests.arena.web._served import serving, small_pool
from tests.arena.web.test_live import live

pytestmark = [needs_browser, pytest.mark.slow]


def test_a_blinded_vote_works_with_the_keyboard_alone(tmp_path: Path, rater: Rater) -> None:
    with serving(tmp_path) as served:
        rater.enter(served.address)
        rater.wait("document.getElementById('vote')")
        assert "secret" not in rater.driver.page_source
        assert "When does it run in part" in rater.text
        rater.press("b")
        rater.wait("document.querySelector('.result')")
        assert "You preferred secret-" in rater.text
        rater.press("u")
        rater.wait("document.getElementById('vote')")
        assert served.arena.store.votes() == []
        first = rater.driver.current_url
        rater.press("s")
        rater.wait(f"document.getElementById('vote') && location.href !== {json.dumps(first)}")
        rater.press("t")
        rater.wait("document.querySelector('.result')")
        rater.press("n")
        rater.wait("document.getElementById('vote')")
        rater.press("x")
        rater.wait("document.querySelector('.result')")
        rater.press("n")
        rater.wait("document.querySelector('h1').textContent === 'All done'")
        assert [vote.preference for vote in served.arena.store.votes()] == ["tie", "both_bad"]
        assert rater.console == []


def test_two_invited_raters_reveal_undo_skip_and_meet_no_pair_twice(
    tmp_path: Path, rater: Rater, other_rater: Rater
) -> None:
    ann, bob = rater, other_rater
    with serving(tmp_path, small_pool(n=3), types_names=False) as served:
        store = served.arena.store
        ann.driver.get(served.address)
        ann.wait("document.getElementById('invitation')")
        assert "Open the link of your invitation" in ann.text
        for invited_rater, name in ((ann, "Ann"), (bob, "Bob")):
            invited_rater.start(f"{served.address}/enter?invitation={store.invite(name)[1]}")
            invited_rater.wait("document.getElementById('vote')")
            assert f"{name} · 0 voted" in invited_rater.text
        pairs = [invited_rater.driver.current_url for invited_rater in (ann, bob)]
        bob.driver.get(pairs[0])
        bob.wait("document.querySelector('h1').textContent === 'Error 404'")
        assert "secret" not in bob.driver.page_source, "a pair is its rater's"
        # Ann votes, sees the names, undoes the vote and votes the other way.
        ann.press("a")
        ann.wait("document.querySelector('.result')")
        assert "secret-" in ann.text
        ann.press("u")
        ann.wait("document.getElementById('vote')")
        assert "You have seen the system of at least one" in ann.text
        ann.press("b")
        ann.wait("document.querySelector('.result')")
        # Bob skips, sees no name, undoes the skip and votes.
        bob.driver.get(pairs[1])
        bob.wait("document.getElementById('vote')")
        bob.press("s")
        bob.wait(f"document.getElementById('vote') && location.href !== {json.dumps(pairs[1])}")
        bob.driver.get(pairs[1])
        bob.wait("document.querySelector('.result')")
        assert "You skipped this pair" in bob.text
        assert "secret" not in bob.driver.page_source
        bob.press("u")
        bob.wait("document.getElementById('vote')")
        assert "You have seen" not in bob.text
        bob.press("t")
        bob.wait("document.querySelector('.result')")
        bob.press("n")
        bob.wait("document.getElementById('vote')")
        bob.press("x")
        bob.wait("document.querySelector('.result')")
        ann.press("n")
        ann.wait("document.querySelector('h1').textContent === 'All done'")
        votes = [(vote.rater, vote.preference, vote.view) for vote in store.votes()]
        assert votes == [
            ("Ann", "second", "revealed"),
            ("Bob", "tie", "blinded"),
            ("Bob", "both_bad", "blinded"),
        ]
        assert len({vote.battle_id for vote in store.votes()}) == 3
        assert ann.console == []


def test_two_raters_side_by_side_and_an_abandoned_pair(tmp_path: Path, rater: Rater, other_rater: Rater) -> None:
    ann, bob = rater, other_rater
    choose = (
        "document.getElementById('item').selectedIndex = 0; "
        "document.querySelector('form[method=post] button.main').click()"
    )
    with serving(tmp_path, small_pool(n=2), types_names=False, lease_seconds=0) as served:
        for invited_rater, name in ((ann, "Ann"), (bob, "Bob")):
            invited_rater.start(f"{served.address}/enter?invitation={served.arena.store.invite(name)[1]}")
            invited_rater.wait("document.getElementById('vote')")
        left = ann.driver.current_url
        ann.driver.get(f"{served.address}/side-by-side")
        ann.run(choose)
        ann.wait("document.getElementById('vote')")
        assert "secret-one" in ann.text
        ann.press("a")
        ann.wait("document.querySelector('.result')")
        bob.driver.get(f"{served.address}/side-by-side")
        bob.run(choose)
        bob.wait("document.querySelector('h1').textContent === 'Not saved'")
        assert "This pair already has enough other raters" in bob.text
        assert "Home" in bob.text
        bob.run("document.querySelector('.button.main').click()")
        bob.wait("document.getElementById('vote')")
        bob.press("b")
        bob.wait("document.querySelector('.result')")
        ann.driver.get(f"{served.address}/battles")
        ann.wait("document.querySelector('h1').textContent === 'All done'")
        assert [(vote.rater, vote.view) for vote in served.arena.store.votes()] == [
            ("Ann", "side_by_side"),
            ("Bob", "blinded"),
        ]
        voted = {vote.rater: vote.battle_id for vote in served.arena.store.votes()}
        assert voted["Ann"] != voted["Bob"]
        assert left.startswith(served.address)


def test_a_citation_opens_its_passage_on_focus_and_on_hover(tmp_path: Path, rater: Rater) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    with serving(tmp_path) as served:
        rater.enter(served.address)
        rater.wait("document.getElementById('vote')")
        tip = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
        rater.run("document.querySelector('.cite').focus()")
        assert "The ferry runs from April." in rater.run(tip)
        rater.press(Keys.ESCAPE)
        assert rater.run(tip) == ""
        cites = rater.driver.find_elements(By.CSS_SELECTOR, ".cite")
        ActionChains(rater.driver, duration=0).move_to_element(cites[1]).perform()
        assert "The ferry runs from April." in rater.run(tip)
        rater.press("2")  # no key of ours: nothing happens
        reason = rater.driver.find_element(By.ID, "reason")
        reason.send_keys("better at ab")
        assert served.arena.store.votes() == []
        assert rater.run("return document.getElementById('reason').value") == "better at ab"


def test_no_text_becomes_markup_and_no_foreign_script_runs(tmp_path: Path, rater: Rater) -> None:
    with serving(tmp_path, small_pool(f"x{HOSTILE}", f"y{HOSTILE}", n=1, text=HOSTILE)) as served:
        rater.enter(served.address)
        rater.wait("document.getElementById('vote')")
        assert HOSTILE[:20] in rater.text
        rater.press("a")
        rater.wait("document.querySelector('.result')")
        for path in ("/ratings", "/side-by-side", "/forms"):
            rater.driver.get(served.address + path)
        assert rater.run("return [window.harmed, document.images.length]") == [None, 0]
        assert rater.console == []


def test_pages_fit_both_screens_in_both_themes_without_a_serious_problem(tmp_path: Path, rater: Rater) -> None:
    long_word = "x" * 200
    with serving(tmp_path, small_pool("one", "two", text=f"A long word: {long_word}")) as served:
        rater.enter(served.address)
        rater.wait("document.getElementById('vote')")
        battle = rater.driver.current_url.removeprefix(served.address)
        paths = ["/enter", battle, "/forms"]
        addresses = [f"{battle}?form=json", "/side-by-side"]
        violations = {}
        for path in paths:
            rater.driver.get(served.address + path)
            rater.screen(*SCREENS[0], "light")
            violations[path, "wide"] = ([] if path == "/enter" else rater.serious(), rater.is_too_wide)
            rater.screen(*SCREENS[1], "dark")
            violations[path, "narrow"] = (rater.serious(), rater.is_too_wide)
        rater.driver.get(served.address + battle)
        rater.press("a")
        rater.wait("document.querySelector('.result')")
        violations["result", "narrow"] = (rater.serious(), rater.is_too_wide)
        for path in addresses:
            rater.driver.get(served.address + path)
            violations[path, "narrow"] = (rater.serious(), rater.is_too_wide)
        rater.driver.get(f"{served.address}/ratings")
        violations["ratings", "narrow"] = (rater.serious(), rater.is_too_wide)
        assert {key: value for key, value in violations.items() if value != ([], False)} == {}


def test_on_a_phone_the_earlier_conversation_starts_at_its_first_message(tmp_path: Path, rater: Rater) -> None:
    def long(system: str) -> Answer:
        made = answer(system, f"From April, {system} says.")
        earlier = (Message(Role.USER, "Is there a ferry?"), Message(Role.ASSISTANT, "Yes, from Pellin. " * 40))
        task = replace(made.response.task, messages=(*earlier, made.response.task.messages[-1]))
        return replace(made, response=replace(made.response, task=task))

    with serving(tmp_path, AnswerPool(map(long, ("one", "two")))) as served:
        rater.screen(*SCREENS[1])
        rater.enter(served.address)
        rater.wait("document.getElementById('vote')")
        box, first = rater.run(
            "const box = document.querySelector('.earlier');"
            "return [box, box.firstElementChild].map((part) => part.getBoundingClientRect().top)"
        )
        assert first >= box


def test_live_answers_appear_and_lead_to_the_vote(tmp_path: Path, rater: Rater) -> None:
    with live(tmp_path, "quick", "slow") as (served, _, _bodies):
        rater.enter(served.address, "/live")
        rater.run("document.getElementById('question').value = 'When does the ferry run?'")
        rater.run("document.querySelector('form.ask').requestSubmit()")
        rater.wait("document.getElementById('vote')")
        assert "secret" not in rater.driver.page_source
        assert rater.run("return document.querySelectorAll('.cite').length") == 2
        rater.press("a")
        rater.wait("document.querySelector('.result')")
        assert "Continue the conversation" in rater.text
        assert rater.serious() == []
        assert rater.console == []
