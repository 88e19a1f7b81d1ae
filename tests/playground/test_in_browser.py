"""The playground in headless Chromium, on a desktop and on a phone: `make test-pages`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphopt.playground.server import Playground
from graphopt_tests.report.test_in_browser import SIZES, Browser, pytestmark

__all__ = ["pytestmark"]
MODELS = Path(__file__).parents[1] / "data" / "models"


class Page(Browser):
    """The playground, opened in a browser."""

    def __init__(self, link: str, width: int, height: int) -> None:
        self.open(width, height)
        self.driver.get(link)

    def at_stage(self) -> str:
        """Wait until the report is drawn, and return the shown stage."""
        self.wait(
            "const frame = document.getElementById('report').contentDocument;"
            "return frame && frame.body && frame.body.dataset.ready && "
            "document.getElementById('which').textContent"
        )
        return self.text("#which")


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open the playground of a server; at the end, check that no error was logged."""
    with Playground() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Page(server.link, *SIZES[request.param])
        try:
            yield made
            logged = [e for e in made.driver.get_log("browser") if e["level"] == "SEVERE"]
            assert logged == []
        finally:
            made.driver.quit()
            server.shutdown()


def test_a_visit(page: Page) -> None:
    """A visit: open an example, move the slider, run, drop two models, and share the link."""
    page.click("#examples button:last-child")
    opened = page.at_stage()
    assert opened == "before | after" if page.width > 700 else "fuse-gemm-epilogue" in opened
    page.driver.execute_script(
        "const step = document.getElementById('step'); step.value = 1;"
        "step.dispatchEvent(new Event('input'))"
    )
    assert page.at_stage() == "before passes"
    page.click("#run")
    assert "scores: float32 [3, 3]" in page.wait(
        "return document.getElementById('outputs').textContent"
    )
    page.type("#file", str(MODELS / "infer_lenet" / "model.pdmodel"))
    page.wait("return document.getElementById('text').readOnly")
    page.type("#against", str(MODELS / "infer_resnet18" / "model.pdmodel"))
    page.wait(
        "const frame = document.getElementById('report').contentDocument;"
        "const tab = frame && frame.querySelector('[data-view=against]');"
        "return tab && !tab.hidden"
    )
    page.click("#share")
    page.wait("return location.hash.length > 100")
    link = page.driver.current_url
    page.driver.get("about:blank")
    page.driver.get(link)
    assert page.at_stage()
    assert "pd.conv2d" in page.driver.execute_script("return document.getElementById('text').value")
    assert page.text("#error") == ""
