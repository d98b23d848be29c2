"""The documentation site works in a browser: layout, search, dark mode; and llms.txt lists its pages."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.browser import open_browser, set_width

ROOT = Path(__file__).parents[2]
HTML = ROOT / "docs/_build/html"
#: Pages with long tables, long signatures, wide blocks of code and images.
PAGES = (
    "index",
    "architecture",
    "performance",
    "measurements",
    "migration/confluent-kafka",
    "security",
    "spark",
    "reference/configuration",
    "reference/errors",
    "reference/producer",
)
WAIT_S = 20
#: The texts of code, tables and images that a reader would have to scroll sideways to see in full.
_CUT_OFF = """
return [...document.querySelectorAll("article pre, article .table-wrapper, article img")]
    .filter(each => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().right > innerWidth)
    .map(each => each.textContent.slice(0, 80) || each.src)
"""
#: WCAG 2.1: text needs a contrast of 4.5 to 1 (1.4.3), graphics 3 to 1 (1.4.11).
_TEXT_CONTRAST, _BAR_CONTRAST = 4.5, 3.0

pytestmark = pytest.mark.browser


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/favicon.ico":
            # Browsers ask for it where a document names no icon, as an image does not.
            self.path = "/_static/icon.svg"
        super().do_GET()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site, which is built before if pages or docstrings have changed."""
    HTML.parent.mkdir(exist_ok=True)
    with (HTML.parent / "lock").open("w") as lock:  # other processes of this run build it, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        build = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "--quiet"]
        built = subprocess.run(
            [*build, "docs", str(HTML)], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
        )
        assert built.returncode == 0, built.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(HTML)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def shared_browser(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with open_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Any, site: str) -> Iterator[Chrome]:
    """A browser on which nothing was set. After the test: no page had an error or loaded a foreign file."""
    shared_browser.get(f"{site}/index.html")
    shared_browser.execute_script("localStorage.clear()")
    shared_browser.get_log("browser")
    yield shared_browser
    assert [entry for entry in shared_browser.get_log("browser") if entry["level"] != "INFO"] == []
    loaded = "return performance.getEntriesByType('resource').map(each => each.name)"
    assert [url for url in shared_browser.execute_script(loaded) if not url.startswith(site)] == []


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def left_and_right(browser: Chrome, element: WebElement) -> tuple[float, float]:
    script = "const box = arguments[0].getBoundingClientRect(); return [box.left, box.right]"
    left, right = browser.execute_script(script, element)
    return left, right


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_screen(browser: Chrome, site: str, page: str, width: int) -> None:
    set_width(browser, width)
    browser.get(f"{site}/{page}.html")
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    left, right = left_and_right(browser, find(browser, "article"))
    assert 0 <= left < right <= width
    assert find(browser, "article h1").is_displayed()
    assert browser.execute_script(_CUT_OFF) == []


def test_the_front_page_fits_on_one_screen(browser: Chrome, site: str) -> None:
    set_width(browser, 1280)
    browser.get(f"{site}/index.html")
    assert len(browser.find_elements(By.CSS_SELECTOR, "article img")) == 1
    for selector in ("article pre", "article img", ".front li", ".doors li"):
        for element in browser.find_elements(By.CSS_SELECTOR, selector):
            assert browser.execute_script("return arguments[0].getBoundingClientRect().bottom", element) < 900


@pytest.mark.parametrize("page", ["index", "performance"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plots_are_legible(browser: Chrome, site: str, page: str, scheme: str) -> None:
    browser.get(f"{site}/{page}.html")
    plots = [str(each.get_attribute("src")) for each in browser.find_elements(By.CSS_SELECTOR, "article img")]
    assert plots
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    try:
        for plot in plots:
            browser.get(plot)
            background = _fill(find(browser, ".page"))
            assert (luminance(background) > 0.5) == (scheme == "light")
            bars = browser.find_elements(By.CSS_SELECTOR, ".bar")
            texts = browser.find_elements(By.CSS_SELECTOR, "text")
            assert 2 <= len(bars) <= 4
            assert len({_fill(bar) for bar in bars}) == 2  # ours and the others
            assert min(contrast(_fill(bar), background) for bar in bars) >= _BAR_CONTRAST
            assert min(contrast(_fill(text), background) for text in texts) >= _TEXT_CONTRAST
            right = left_and_right(browser, find(browser, ".page"))[1]
            assert max(left_and_right(browser, text)[1] for text in texts) < right
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def _fill(element: WebElement) -> str:
    return element.value_of_css_property("fill")


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colors of CSS, from 1 to 21, as WCAG 2.1 defines it."""
    brighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_sidebar_is_beside_the_text_and_on_a_phone_behind_a_button(browser: Chrome, site: str) -> None:
    set_width(browser, 1280)
    browser.get(f"{site}/security.html")
    captions = [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".sidebar-tree .caption-text")]
    # Furo writes captions in capital letters.
    assert {"GUIDES", "REFERENCE", "PERFORMANCE", "INTERNALS"} <= {each.upper() for each in captions}
    assert find(browser, ".sidebar-tree .current-page").text == "Security"
    sidebar = find(browser, ".sidebar-drawer")
    assert left_and_right(browser, sidebar)[1] <= left_and_right(browser, find(browser, "article"))[0]

    set_width(browser, 400)
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda _: left_and_right(browser, sidebar)[1] <= 0)
    find(browser, ".mobile-header .nav-overlay-icon").click()
    wait.until(lambda _: left_and_right(browser, sidebar)[0] == 0)
    find(browser, ".sidebar-tree a[href$='tour.html']").click()
    wait.until(lambda _: browser.current_url == f"{site}/tour.html")


def test_the_search_finds_a_setting_and_its_row(browser: Chrome, site: str) -> None:
    set_width(browser, 1280)
    browser.get(f"{site}/search.html?q=linger_ms")
    results = WebDriverWait(browser, WAIT_S).until(
        lambda _: browser.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    addresses = [str(each.get_attribute("href")) for each in results]
    assert addresses[0].startswith(f"{site}/reference/configuration.html")
    assert addresses[0].endswith("#linger_ms")
    results[0].click()
    WebDriverWait(browser, WAIT_S).until(lambda _: "configuration.html" in browser.current_url)
    row = find(browser, "#linger_ms")
    assert "How long a batch waits" in row.text
    top = browser.execute_script("return arguments[0].getBoundingClientRect().top", row)
    assert 0 <= top < 900


def test_light_and_dark_mode_switch(browser: Chrome, site: str) -> None:
    set_width(browser, 1280)
    browser.get(f"{site}/index.html")
    modes = {}
    for _ in range(3):
        find(browser, ".content-icon-container .theme-toggle").click()
        body = find(browser, "body")
        colors = [body.value_of_css_property(name) for name in ("background-color", "color")]
        modes[body.get_dom_attribute("data-theme")] = colors
    assert modes.keys() == {"auto", "light", "dark"}
    assert brightness(modes["light"][0]) > 200 > 100 > brightness(modes["light"][1])
    assert brightness(modes["dark"][0]) < 100 < 200 < brightness(modes["dark"][1])


def brightness(color: str) -> float:
    red, green, blue = map(int, re.findall(r"\d+", color)[:3])
    return (red + green + blue) / 3


def test_llms_txt_describes_every_page(site: str) -> None:
    text = (HTML / "llms.txt").read_text(encoding="utf-8")
    assert re.match(r"# kproducer\n\n> [A-Z].+\.\n\n## ", text)
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\): .{20,}$", text, re.MULTILINE)
    assert len(links) == len(re.findall("^- ", text, re.MULTILINE))
    built = {path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html")}
    assert built - set(links) == {"index.html", "search.html", "genindex.html"}
    everything = (HTML / "llms-full.txt").read_text(encoding="utf-8")
    assert "Accept one record for delivery" in everything
    assert "| `linger_ms` |" in everything
