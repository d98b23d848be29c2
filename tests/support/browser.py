"""Headless Chromium or Chrome for tests of web pages, driven with selenium.

Without a browser and its driver tests are skipped; ``KPRODUCER_REQUIRE_BROWSER=1`` makes that a failure.
``make browser`` installs both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.requirements import REQUIRE_BROWSER, skip_or_fail

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_BROWSER = shutil.which("google-chrome") or shutil.which("chromium")
_DRIVER = shutil.which("chromedriver")
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # which the root user of a container cannot have
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def skip_or_fail_without_browser(item: pytest.Item) -> None:
    """For ``pytest_runtest_setup``."""
    if item.get_closest_marker("browser") is None or (_BROWSER and _DRIVER):
        return
    missing = "chromedriver" if _BROWSER else "chromium"
    skip_or_fail(REQUIRE_BROWSER, f"tests with a browser: {missing} not found: make browser")


@contextmanager
def open_browser(profile: Path) -> Iterator[Chrome]:
    """Start a browser with a new profile in this folder.

    Both programs are named, so selenium does not look for others, or download them.
    """
    # Imported here, because every run of tests imports this module.
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = _BROWSER or ""
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, Service(_DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def set_width(browser: Chrome, width: int) -> None:
    """Lay pages out for a screen of this width in CSS pixels; windows cannot be as narrow as a phone."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
