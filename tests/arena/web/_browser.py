"""A real browser, and the actions of raters in one of its tabs. Requires Chromium and its driver."""

from __future__ import annotations

import shutil
from importlib import resources
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no browser: Chromium with chromedriver")
HOSTILE = "</textarea><script>window.harmed=1</script><img src=x onerror='window.harmed=1'>"
SCREENS = ((1280, 900), (390, 844))
SERIOUS = {"serious", "critical"}


class Rater:
    """A tab of the browser, with the actions of raters."""

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

    def enter(self, address: str, path: str = "/", name: str = "Ann") -> None:
        """Enter with the keyboard alone."""
        from selenium.webdriver.common.keys import Keys

        self.driver.delete_all_cookies()
        self.driver.get(f"{address}/enter")
        self.wait("document.documentElement.dataset.started")
        self.press(Keys.TAB, Keys.TAB, Keys.TAB, name, Keys.ENTER)
        self.wait("document.querySelector('nav')")
        if path != "/":
            self.driver.get(f"{address}{path}")

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def start(self, link: str) -> None:
        """Enter with the link of an invitation."""
        self.driver.delete_all_cookies()
        self.driver.get(link)
        self.wait("document.documentElement.dataset.started")
        self.run("document.querySelector('button.main').click()")
        self.wait("document.querySelector('nav')")

    @property
    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def serious(self) -> list[Any]:
        """Return axe's problems that are serious or critical, on this page."""
        script = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        # Injected through the debugger, because the page's policy blocks other scripts.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
        violations: list[dict[str, Any]] = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then((result) => done(result.violations));"
        )
        return [
            (violation["id"], violation["nodes"][0]["html"])
            for violation in violations
            if violation["impact"] in SERIOUS
        ]

    @property
    def console(self) -> list[Any]:
        return list(self.driver.get_log("browser"))

    @property
    def is_too_wide(self) -> bool:
        return bool(self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth"))
