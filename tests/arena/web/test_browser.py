"""The arena in a real browser: a blinded vote, undo, skip, keys alone, a narrow screen, hostile texts, axe's rules.

Needs Chromium and its driver; the console must stay empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.arena.web._served import Served, serving, small_pool
from tests.arena.web.test_live import live

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no browser: Chromium with chromedriver")
HOSTILE = "</textarea><script>window.harmed=1</script><img src=x onerror='window.harmed=1'>"
SCREENS = ((1280, 900), (390, 844))
SERIOUS = {"serious", "critical"}


class Rater:
    """One tab of the browser, with what raters do in it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, 15, poll_frequency=0.02)
        waiting.until(
            lambda _: self.run(f"return document.readyState === 'complete' && Boolean({condition})"), condition
        )

    def screen(self, width: int, height: int, scheme: str = "light") -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def enter(self, served: Served, path: str = "/") -> None:
        """Come in as Ann, by keys alone."""
        from selenium.webdriver.common.keys import Keys

        self.driver.delete_all_cookies()
        self.driver.get(f"{served.address}/enter")
        self.wait("document.documentElement.dataset.started")
        self.press(Keys.TAB, Keys.TAB, Keys.TAB, "Ann", Keys.ENTER)
        self.wait("document.querySelector('nav')")
        if path != "/":
            self.driver.get(f"{served.address}{path}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    @property
    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def serious(self) -> list[Any]:
        """Return axe's violations that are serious or critical, on this page."""
        script = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        # Through the debugger: the page's own policy lets no other script in.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
        found: list[dict[str, Any]] = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then((result) => done(result.violations));"
        )
        return [(item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in SERIOUS]

    @property
    def console(self) -> list[Any]:
        return list(self.driver.get_log("browser"))

    @property
    def is_too_wide(self) -> bool:
        return bool(self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield made
    made.quit()


@pytest.fixture
def rater(driver: Any) -> Rater:
    found = Rater(driver)
    found.screen(*SCREENS[0])
    driver.get_log("browser")
    return found


def test_a_blinded_vote_by_keys_alone_from_the_topic_to_the_names(tmp_path: Path, rater: Rater) -> None:
    with serving(tmp_path) as served:
        rater.enter(served)
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


def test_a_citation_opens_its_passage_on_focus_and_on_hover(tmp_path: Path, rater: Rater) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    with serving(tmp_path) as served:
        rater.enter(served)
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


def test_no_text_becomes_markup_and_no_script_of_others_runs(tmp_path: Path, rater: Rater) -> None:
    with serving(tmp_path, small_pool(f"x{HOSTILE}", f"y{HOSTILE}", n=1, text=HOSTILE)) as served:
        rater.enter(served)
        rater.wait("document.getElementById('vote')")
        assert HOSTILE[:20] in rater.text
        rater.press("a")
        rater.wait("document.querySelector('.result')")
        for path in ("/ratings", "/side-by-side", "/forms"):
            rater.driver.get(served.address + path)
        assert rater.run("return [window.harmed, document.images.length]") == [None, 0]
        assert rater.console == []


def test_pages_fit_both_screens_in_both_themes_without_a_serious_violation(tmp_path: Path, rater: Rater) -> None:
    long_word = "x" * 200
    with serving(tmp_path, small_pool("one", "two", text=f"A long word: {long_word}")) as served:
        rater.enter(served)
        rater.wait("document.getElementById('vote')")
        battle = rater.driver.current_url.removeprefix(served.address)
        paths = ["/enter", battle, "/forms"]
        others = [f"{battle}?form=json", "/side-by-side"]
        found = {}
        for path in paths:
            rater.driver.get(served.address + path)
            rater.screen(*SCREENS[0], "light")
            found[path, "wide"] = ([] if path == "/enter" else rater.serious(), rater.is_too_wide)
            rater.screen(*SCREENS[1], "dark")
            found[path, "narrow"] = (rater.serious(), rater.is_too_wide)
        rater.driver.get(served.address + battle)
        rater.press("a")
        rater.wait("document.querySelector('.result')")
        found["result", "narrow"] = (rater.serious(), rater.is_too_wide)
        for path in others:
            rater.driver.get(served.address + path)
            found[path, "narrow"] = (rater.serious(), rater.is_too_wide)
        rater.driver.get(f"{served.address}/ratings")
        found["ratings", "narrow"] = (rater.serious(), rater.is_too_wide)
        assert {key: value for key, value in found.items() if value != ([], False)} == {}


def test_live_answers_are_streamed_and_lead_to_the_vote(tmp_path: Path, rater: Rater) -> None:
    with live(tmp_path, "quick", "slow") as (served, _, _bodies):
        rater.enter(served, "/live")
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
