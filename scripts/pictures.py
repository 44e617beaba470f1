"""Takes the screenshots of the documentation in a browser: a report's page and a leaderboard, light, dark and narrow.

    make run && python scripts/pictures.py results/sample docs/images

Requires Chromium with its driver, and selenium (extra `dev`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

RAGTASKS = str(Path(sys.executable).parent / "ragtasks")
# Name of the picture: page, fragment, width, height, color scheme.
PICTURES = {
    "page": ("page.html", "", 1280, 1000, "light"),
    "page-dark": ("page.html", "", 1280, 1000, "dark"),
    "page-390": ("page.html", "", 390, 1900, "light"),
    "plots-dark": ("page.html", "#view=plots", 1280, 900, "dark"),
    "plots-390": ("page.html", "#view=plots", 390, 844, "light"),
    "conversation-dark": ("page.html", "#view=conversations", 1280, 900, "dark"),
    "leaderboard": ("leaderboard.html", "", 1280, 900, "light"),
    "leaderboard-dark": ("leaderboard.html", "", 1280, 900, "dark"),
    "leaderboard-390": ("leaderboard.html", "", 390, 844, "light"),
}


def browser() -> Any:
    """Start a headless browser."""
    options = webdriver.ChromeOptions()
    for switch in ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "hide-scrollbars"):
        options.add_argument(f"--{switch}")
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def take(driver: Any, address: str, size: tuple[int, int], scheme: str, picture: Path) -> None:
    """Open a page in a size and color scheme, and save a screenshot."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get("about:blank")
    driver.get(address)
    ready = "return document.readyState === 'complete' && [...document.images].every((image) => image.complete)"
    WebDriverWait(driver, 30).until(lambda _: driver.execute_script(ready))
    driver.execute_async_script("const done = arguments[0]; setTimeout(done, 500);")
    driver.save_screenshot(str(picture))


def main() -> None:
    """Write the pages of a folder of results, and take each screenshot."""
    results, out = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        pages = {"page.html": ("report", "--html"), "leaderboard.html": ("results list", "--leaderboard")}
        for name, (command, option) in pages.items():
            arguments = [RAGTASKS, *command.split(), str(results), option, f"{folder}/{name}"]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        driver = browser()
        try:
            for name, (page, fragment, width, height, scheme) in PICTURES.items():
                take(driver, f"file://{folder}/{page}{fragment}", (width, height), scheme, out / f"{name}.png")
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
