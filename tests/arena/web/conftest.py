from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.arena.web._browser import BROWSER, DRIVER, SCREENS, Rater


def _browser() -> Any:
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    made = _browser()
    yield made
    made.quit()


@pytest.fixture
def rater(driver: Any) -> Rater:
    browser_rater = Rater(driver)
    browser_rater.screen(*SCREENS[0])
    driver.get_log("browser")
    return browser_rater


@pytest.fixture
def other_rater() -> Iterator[Rater]:
    """A second browser, with cookies of its own."""
    made = _browser()
    browser_rater = Rater(made)
    browser_rater.screen(*SCREENS[0])
    yield browser_rater
    made.quit()
