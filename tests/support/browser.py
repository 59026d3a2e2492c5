# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that opens pages without a network, for tests and measurements of HTML pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What Debian's packages chromium and chromium-driver install.
BROWSERS, DRIVERS = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)

_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def missing() -> str | None:
    """Say what is missing for a browser; None if nothing is."""
    for names, package in ((BROWSERS, "chromium"), (DRIVERS, "chromium-driver")):
        if not any(map(shutil.which, names)):
            return f"there is no {names[0]}: apt-get install {package}"
    return None


@contextmanager
def opened(profile: Path, width: int = 1280, height: int = 1000) -> Iterator[Any]:
    """Yield a driver of a browser with an empty profile in a folder."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = next(path for name in BROWSERS if (path := shutil.which(name)))
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=shutil.which(DRIVERS[0])))
    try:
        yield driver
    finally:
        driver.quit()


def open_page(driver: Any, page: Path, seconds: float = 60.0) -> None:
    """Open a page, and wait until its charts are drawn and its texts unpacked."""
    from selenium.webdriver.support.wait import WebDriverWait

    driver.get(page.resolve().as_uri())
    ready = "return document.body.dataset.stories !== undefined && Bokeh.documents[0].is_idle"
    WebDriverWait(driver, seconds, poll_frequency=0.02).until(lambda d: d.execute_script(ready))
