"""The site of the documents, opened from disk in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.arena.web._browser import DRIVER, Rater, needs_browser
from tests.documents._lines import ROOT

FIELD = ".md-search__input"
RESULTS = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"


@pytest.mark.slow
@needs_browser
def test_links_and_the_search_work_from_disk(tmp_path: Path) -> None:
    from selenium import webdriver

    build = [Path(sys.executable).with_name("mkdocs"), "build", "--quiet", "--site-dir", tmp_path / "site"]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    options = webdriver.ChromeOptions()
    for switch in ("headless=new", "no-sandbox", "host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(f"--{switch}")
    driver: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        tab = Rater(driver)
        tab.screen(1280, 900)
        driver.get((tmp_path / "site" / "index.html").as_uri())
        tab.wait("document.querySelector('nav a[href$=\"gate.html\"]')")
        tab.run("document.querySelector('nav a[href$=\"gate.html\"]').click()")
        tab.wait("document.title.startsWith('Test a change')")
        tab.run("document.getElementById('__search').click()")
        tab.wait(f"(document.querySelector('{FIELD}').focus(), document.activeElement.matches('{FIELD}'))")
        tab.press("baseline")
        tab.wait(f"{RESULTS}.some((address) => address.startsWith('file:') && address.includes('gate.html'))")
        assert not tab.console
    finally:
        driver.quit()
