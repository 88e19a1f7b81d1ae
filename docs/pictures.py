"""Pictures of what a visitor sees first, in headless Chromium: `make pictures`.

They are the README, the report of `make demo`, the site and the playground, each on a desktop and
on a phone, in out/pictures, to be looked at after a change of theirs. Some are kept in docs, too.
"""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from graphopt.playground.server import Playground

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "pictures"
SIZES = {"desktop": (1400, 900), "phone": (390, 800)}
IN_DOCS = {
    "playground-desktop": "how-to/playground.png",
    "readme-desktop-light": "readme.png",
    "site-desktop-light": "site.png",
}
COLOURS = 256
DRAWN = "return document.body.dataset.ready"
SHOWN = (
    "const page = document.getElementById('report').contentDocument;"
    "return page && page.body && page.body.dataset.ready"
    " && !document.querySelector('button.working, button:disabled')"
)


class Quiet(SimpleHTTPRequestHandler):
    """The files of the repository, without a log."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(ROOT))

    def log_message(self, format: str, *args: object) -> None:
        pass


def browser() -> Any:
    """Headless Chromium of the system."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def picture(driver: Any, name: str) -> None:
    """Write what is shown, with few colours, which make a small file: those of few pixels, too."""
    shown = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    small = shown.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(OUT / f"{name}.png", optimize=True)
    if name in IN_DOCS:
        small.save(ROOT / "docs" / IN_DOCS[name], optimize=True)


def main() -> None:
    """Visit each page at each size."""
    OUT.mkdir(parents=True, exist_ok=True)
    driver = browser()
    files = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    playground = Playground()
    for server in (files, playground):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{files.server_port}/out"

    def visit(address: str, is_shown: str = "", act: Callable[[], None] = lambda: None) -> None:
        driver.get("about:blank")
        driver.get(address)
        act()
        WebDriverWait(driver, 300).until(
            lambda it: it.execute_script(is_shown or "return document.readyState === 'complete'")
        )

    def example() -> None:
        driver.find_element("css selector", "#examples button:first-child").click()

    try:
        for device, (width, height) in SIZES.items():
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
            )
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
                visit(f"{base}/site/index.html")
                picture(driver, f"site-{device}-{scheme}")
                visit(f"{base}/site/files/index.html")
                picture(driver, f"readme-{device}-{scheme}")
            feature = {"name": "prefers-color-scheme", "value": "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            visit(f"{base}/passes.html", DRAWN)
            picture(driver, f"report-of-demo-{device}")
            visit(playground.link, SHOWN, example)
            picture(driver, f"playground-{device}")
    finally:
        driver.quit()
        files.shutdown()
        playground.shutdown()


if __name__ == "__main__":
    main()
