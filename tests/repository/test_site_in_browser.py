"""The built documentation, in headless Chromium and link by link: `make test-pages` builds it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from graphopt_tests.report.test_in_browser import SIZES, Browser
from graphopt_tests.report.test_in_browser import pytestmark as needs_browser

SITE = Path(__file__).parents[2] / "out" / "site"
pytestmark = [
    *needs_browser,
    pytest.mark.skipif(not SITE.is_dir(), reason="needs the site that `make docs` builds"),
]
PAGES = (
    "index.html",
    "how-to/deploy.html",
    "reference/operators.html",
    "api/graphopt.testing.html",
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder, without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class Visit(Browser):
    """The site, opened in a browser."""

    def __init__(self, address: str, width: int, height: int) -> None:
        self.address = address
        self.open(width, height)
        # a window has a least width, a device has none
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
        )

    def go(self, page: str) -> None:
        self.driver.get(f"{self.address}/{page}")
        self.wait("return document.readyState === 'complete'")

    def brightness(self) -> float:
        """Measure the brightness of the page's background, from 0 to 255."""
        shown = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        numbers = shown[shown.index("(") + 1 : -1].split(",")[:3]
        return sum(map(float, numbers)) / 3


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site on a free port."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=SIZES)
def site(request: pytest.FixtureRequest, address: str) -> Iterator[Visit]:
    """Open a browser on a desktop and on a phone; at the end, check that no error was logged."""
    made = Visit(address, *SIZES[request.param])
    try:
        yield made
        logged = [e for e in made.driver.get_log("browser") if e["level"] == "SEVERE"]
        assert logged == []
    finally:
        made.driver.quit()


def test_no_page_is_wider_than_the_window(site: Visit) -> None:
    """Wide tables and code scroll on their own."""
    for page in PAGES:
        site.go(page)
        wide = site.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, page


def test_search_finds_a_page(site: Visit) -> None:
    """Searching for a word of a guide leads to it."""
    site.go("index.html")
    if site.width < 700:
        site.click("label.md-header__button[for=__search]")
    site.type(".md-search__input", "bisect")
    first = "const it = document.querySelector('.md-search-result__link'); return it && it.href"
    assert site.wait(first).startswith(site.address)
    assert any("rewrite" in text for text in site.texts(".md-search-result__item"))


def test_light_and_dark(site: Visit) -> None:
    """The page follows the system's color scheme, also when it changes; a button overrides it."""
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        site.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        site.go("index.html")
        assert (site.brightness() > 128) == (scheme == "light")
    for chosen in ("default", "slate"):
        site.click("form[data-md-component=palette] label:not([hidden])")
        site.wait(f"return document.body.dataset.mdColorScheme === '{chosen}'")
        assert (site.brightness() > 128) == (chosen == "default")


class Links(HTMLParser):
    """The links of a page, and the anchors in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def test_every_link_leads_somewhere() -> None:
    """Each link inside the site names an existing file and anchor."""
    pages = {path: Links(path.read_text("utf-8")) for path in sorted(SITE.rglob("*.html"))}
    broken: list[str] = []
    for path, page in pages.items():
        # what stands where nothing is found is shown at any address
        for target in () if path.name == "404.html" else page.targets:
            if ":" in target.partition("/")[0] or target.startswith("//"):
                continue
            name, anchor = urldefrag(unquote(target))
            found = (path.parent / name).resolve() if name else path
            if found.is_dir():
                found /= "index.html"
            if not found.is_file() or (found in pages and anchor not in pages[found].anchors):
                broken.append(f"{path.relative_to(SITE)}: {target}")
    assert len(pages) > 100
    assert broken == []
