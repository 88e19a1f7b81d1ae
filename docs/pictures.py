"""Pictures of what a visitor sees first, in headless Chromium: `make pictures`.

They are the README, the report of `make demo`, the site and the playground, each on a desktop and
on a phone, in out/pictures, to be looked at after a change of theirs; and the pictures of docs, but
for the one of another tool.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
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
    "before-after": "before-after.png",
    "playground-desktop": "how-to/playground.png",
    "readme-desktop-light": "readme.png",
    "report-against": "how-to/report-against.png",
    "report-compilations": "how-to/report-compilations.png",
    "report-desktop": "how-to/report-desktop.png",
    "report-numbers": "how-to/report-numbers.png",
    "report-phone": "how-to/report-phone.png",
    "report-time": "how-to/report-time.png",
    "site-desktop-light": "site.png",
}
COLOURS = 256

# A network of two batch sizes, and two models that differ in three ops: the reports in the guides.
SCRIPTS = {
    "resnet.py": """
import numpy as np
import paddle

paddle.enable_static()
image = paddle.static.data("image", [None, 3, 64, 64], "float32")
label = paddle.static.data("label", [None, 1], "int64")
scores = paddle.vision.models.resnet50()(image)
loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
paddle.optimizer.Momentum(0.01).minimize(loss)
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
flags = paddle.static.BuildStrategy()
flags.fuse_bn_act_ops = flags.fuse_bn_add_act_ops = flags.fuse_gemm_epilogue = True
program = paddle.static.CompiledProgram(paddle.static.default_main_program(), flags)
for rows in (8, 5):
    feed = {"image": np.ones((rows, 3, 64, 64), "float32"), "label": np.zeros((rows, 1), "int64")}
    exe.run(program, feed=feed, fetch_list=[loss])
""",
    "backbones.py": """
import paddle
from paddle import static

paddle.enable_static()
for name, slope in (("yesterday", 0.01), ("today", 0.2)):
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        image = static.data("image", [None, 3, 64, 64], "float32")
        x = paddle.flatten(paddle.vision.models.resnet18(num_classes=0)(image), 1)
        x = paddle.nn.functional.leaky_relu(x, slope)
        outs = [x] if name == "today" else []
        if name == "yesterday":
            x = paddle.nn.functional.dropout(x, 0.1)
        outs.append(static.nn.fc(x, 10))
        exe = static.Executor()
        exe.run(startup)
        static.save_inference_model(name, [image], outs, exe, program=main)
""",
}
COMMANDS = (
    "report resnet.py -o resnet.html",
    "report resnet.py --run -o resnet-run.html",
    "run backbones.py",
    "report today.pdmodel --against yesterday.pdmodel -o against.html",
)
# what is done on a page of a report before its picture is taken
FIND = """
const field = document.getElementById('search');
field.value = 'fused_bn_add';
field.dispatchEvent(new Event('input'));
document.querySelector('#matches button').click();
"""
OPEN_BLOCK = """
for (const id of ['stages', 'legend', 'zoom']) document.getElementById(id).style.display = 'none';
document.querySelector('header').style.display = 'none';
document.querySelector('[data-cluster][aria-label^="residual block 1"]')
  .dispatchEvent(new MouseEvent('click', {bubbles: true}));
"""
FILL_WIDTH = """
const canvas = document.getElementById('canvas');
const {x, y, width} = canvas.getBBox();
const scale = innerWidth / (width + 12);
canvas.setAttribute('transform', `scale(${scale}) translate(${6 - x},${6 - y})`);
"""


def view(name: str) -> str:
    """Open a view of the report."""
    return f"document.querySelector('[data-view={name}]').click();"


# a page in out, its width and height, and what is done on it
OF_REPORTS = {
    "before-after": ("passes.html", 754, 510, [OPEN_BLOCK, FILL_WIDTH]),
    "report-against": ("pictures/against.html", 1000, 497, [view("against")]),
    "report-compilations": ("pictures/resnet.html", 1200, 277, [view("compilations")]),
    "report-desktop": ("pictures/resnet.html", 1200, 637, []),
    "report-numbers": ("pictures/resnet.html", 1000, 497, [view("numbers")]),
    "report-phone": ("pictures/resnet.html", 390, 800, [FIND]),
    "report-time": ("pictures/resnet-run.html", 1200, 637, []),
}
LOADED = "return document.readyState === 'complete'"
DRAWN = "return document.body.dataset.ready && document.getElementById('busy').hidden"
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
    small = shown.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, 1, dither=Image.Dither.NONE)
    small.save(OUT / f"{name}.png", optimize=True)
    if name in IN_DOCS:
        small.save(ROOT / "docs" / IN_DOCS[name], optimize=True)


def write_reports() -> None:
    """Run the scripts and commands whose pages are shown in the guides."""
    for name, text in SCRIPTS.items():
        (OUT / name).write_text(text, "utf-8")
    for line in COMMANDS:
        print(f"graphopt {line}", flush=True)
        subprocess.run([sys.executable, "-m", "graphopt", *line.split()], cwd=OUT, check=True)


def main() -> None:
    """Visit each page at each size."""
    OUT.mkdir(parents=True, exist_ok=True)
    write_reports()
    driver = browser()
    files = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    playground = Playground()
    for server in (files, playground):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{files.server_port}/out"

    def resize(width: int, height: int) -> None:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
        )

    def wait_until(is_true: str) -> None:
        WebDriverWait(driver, 300).until(lambda it: it.execute_script(is_true))

    def visit(address: str, is_shown: str = LOADED, act: Callable[[], None] = lambda: None) -> None:
        driver.get("about:blank")
        driver.get(address)
        act()
        wait_until(is_shown)

    def example() -> None:
        driver.find_element("css selector", "#examples button:first-child").click()

    try:
        for device, size in SIZES.items():
            resize(*size)
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
        for name, (page, width, height, acts) in OF_REPORTS.items():
            resize(width, height)
            visit(f"{base}/{page}", DRAWN)
            for act in acts:
                driver.execute_script(act)
                wait_until(DRAWN)
            picture(driver, name)
    finally:
        driver.quit()
        files.shutdown()
        playground.shutdown()


if __name__ == "__main__":
    main()
