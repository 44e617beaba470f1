"""Seconds until a browser opens the page of `ragtasks report --html`, and until it applies a filter.

ragtasks report RESULTS --html page.html
python perf/page.py page.html [--repeats 5] [--browser chromium] [--driver chromedriver]
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

CHOICES = {"query": ["what", "how long", "zzz", ""], "domain": ["", None], "setting": ["", None]}
FILTER = """
    const [name, value] = arguments;
    const field = document.getElementById('choice').elements[name];
    const start = performance.now();
    field.value = value === null ? [...field.options].at(-1).value : value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    document.getElementById('list').getBoundingClientRect();
    return performance.now() - start;
"""


def browser(program: str, driver: str) -> Any:
    """Start a headless browser."""
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


def seconds_to_open(running: Any, address: str, condition: str) -> float:
    """Open an address and wait until an expression is true in the page."""
    running.get("about:blank")
    begin = time.perf_counter()
    running.get(address)
    WebDriverWait(running, 60, poll_frequency=0.01).until(
        lambda tab: tab.execute_script(f"return Boolean({condition})")
    )
    return time.perf_counter() - begin


def main() -> None:
    """Open the page and its conversation browser, filter alternately, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--driver", default=shutil.which("chromedriver"))
    chosen = parser.parse_args()
    address = chosen.page.resolve().as_uri()
    running = browser(chosen.browser, chosen.driver)
    try:
        views = {
            "tables shown": (address, "document.documentElement.dataset.started"),
            "conversations listed": (address + "#view=conversations", "document.querySelector('.row')"),
        }
        for view, (fragment, condition) in views.items():
            taken = [seconds_to_open(running, fragment, condition) for _ in range(chosen.repeats)]
            print(f"{view}: median {median(taken):.2f} s, {min(taken):.2f} to {max(taken):.2f}", flush=True)
        for name, values in CHOICES.items():
            milliseconds = [
                running.execute_script(FILTER, name, value) for _ in range(chosen.repeats) for value in values
            ]
            print(f"filter by {name}: median {median(milliseconds):.0f} ms, up to {max(milliseconds):.0f}", flush=True)
    finally:
        running.quit()


if __name__ == "__main__":
    main()
