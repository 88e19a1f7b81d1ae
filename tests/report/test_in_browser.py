"""The page of a report in headless Chromium: it works without network, errors or a mouse.

Needs the extra `browser`, and chromium and chromedriver of the system: `make test-pages`.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.debug.program_source import subjects
from graphopt.ir.dialect.numbers import ops_by_number
from graphopt.nn import functional as F
from graphopt.report.graph import OpMeasured
from graphopt.report.measured import MeasuredStep, StepMeasured
from graphopt.report.page import page
from graphopt.report.stages import Optimization, Other, optimization
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.settings.strategy_text import strategy_of

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra `browser`")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(None in (CHROMIUM, DRIVER), reason="needs chromium and chromedriver"),
]
MODELS = Path(__file__).parents[1] / "data" / "models"
SIZES = {"desktop": (1400, 900), "phone": (390, 800)}


def step(layers: Any, shape: list[int]) -> Optimization:
    """Build a training step of layers, with fusions and made-up times; nothing is compiled."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [-1, *shape], "float32")
        loss = paddle.mean(layers(x))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    strategy = BuildStrategy()
    for flag in ("fuse_bn_act_ops", "fused_attention", "fused_feedforward", "fuse_gemm_epilogue"):
        setattr(strategy, flag, True)
    made = static.CompiledProgram(main, strategy)._compilation(("x",), (loss.name,))
    return optimization(
        "step", made.parse, made.pass_context(), measured=made_up(made.optimize(near=True).module)
    )


def made_up(module: ModuleOp) -> MeasuredStep:
    """Make up times with many digits for all ops; the last op takes the longest."""
    ops = ops_by_number(module)
    times = {n: OpMeasured(n / 7e6, n / 9e6, 12345 * n, 1001 * n, n / 9e7) for n in range(len(ops))}
    seconds = sum(each.seconds for each in times.values())
    step = StepMeasured(
        seconds / 0.9,
        seconds / 9,
        0.0,
        5,
        "; peak of a product of float32: 200 GFLOP/s",
        10**9,
        10**6,
        10**5,
    )
    return MeasuredStep(module, step, times)


def resnet() -> Optimization:
    """Build a training step of ResNet-50."""
    return step(lambda x: paddle.vision.models.resnet50()(x), [3, 64, 64])


def transformer() -> Optimization:
    """Build a training step of four encoder layers."""
    layer = paddle.nn.TransformerEncoderLayer
    return step(lambda x: paddle.nn.TransformerEncoder(layer(32, 4, 64), 4)(x), [16, 32])


def long_chain() -> Optimization:
    """Build a program of 3,000 ops."""

    def layers(x: Any) -> Any:
        x = paddle.nn.Linear(8, 8)(x)
        for _ in range(1000):
            x = F.relu(paddle.add(paddle.exp(x), x))
        return x

    return step(layers, [8])


def imported() -> Optimization:
    """Read a saved model."""
    (subject,) = subjects(str(MODELS / "infer_resnet18" / "model.pdmodel"), [], plain=True)
    return optimization("saved", subject.module.clone, pass_context_for(None, "cpu"))


def compared() -> Optimization:
    """Compare the saved model with itself without its fusions."""
    (subject,) = subjects(str(MODELS / "infer_resnet18" / "model.pdmodel"), [], plain=True)
    fused = pass_context_for(strategy_of("fuse_bn_act_ops,fuse_bn_add_act_ops"), "")
    other = Other("plain", subject.module.clone, pass_context_for(None, ""))
    return optimization("compared", subject.module.clone, fused, other=other)


# an op of each
WORDS = {
    "resnet": "conv2d", "transformer": "grad", "long_chain": "exp", "imported": "conv2d",
    "compared": "conv2d",
}  # fmt: skip
PROGRAMS = {each.__name__: each for each in (resnet, transformer, long_chain, imported, compared)}


@pytest.fixture(scope="module", params=PROGRAMS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of each program, of at most 3 MB."""
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    html = page([PROGRAMS[request.param]()], request.param)
    assert len(html) < 3_000_000
    path.write_text(html, "utf-8")
    return path


class Browser:
    """Chromium with a page open."""

    def __init__(self, path: Path, width: int, height: int) -> None:
        self.open(width, height)
        start = time.perf_counter()
        self.driver.get(path.as_uri())
        self.wait("return document.body.dataset.ready")
        self.seconds = time.perf_counter() - start

    def open(self, width: int, height: int) -> None:
        """Start the browser."""
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)

    def wait(self, script: str) -> Any:
        """Return the value of a script, once it is true."""
        for _ in range(600):
            if found := self.driver.execute_script(script):
                return found
            time.sleep(0.1)
        raise AssertionError(f"never true: {script}")

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def type(self, selector: str, text: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(text)

    def text(self, selector: str) -> str:
        return self.driver.find_element("css selector", selector).text

    @property
    def width(self) -> int:
        """The width of the page."""
        return self.driver.execute_script("return innerWidth")

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements, including the drawing's."""
        return self.driver.execute_script(
            f"return [...document.querySelectorAll('{selector}')].map(each => each.textContent)"
        )

    def drawn(self) -> int:
        """Count the drawn nodes and clusters."""
        return len(self.texts("#canvas g:not(.badge) > rect"))

    def redrawn(self, action: Any) -> None:
        """Wait for the drawing that an action starts."""
        before = self.driver.execute_script("return document.body.dataset.drawn")
        action()
        self.wait(f"return document.body.dataset.drawn !== '{before}'")


@pytest.fixture(params=SIZES)
def browser(request: pytest.FixtureRequest, report: Path) -> Iterator[Browser]:
    """Open the page on a desktop and a phone; at the end, check for errors and requests."""
    made = Browser(report, *SIZES[request.param])
    try:
        yield made
        assert [
            entry for entry in made.driver.get_log("browser") if entry["level"] == "SEVERE"
        ] == []
        events = [json.loads(e["message"])["message"] for e in made.driver.get_log("performance")]
        fetched = [e for e in events if e["method"] == "Network.requestWillBeSent"]
        urls = {event["params"]["request"]["url"].partition(":")[0] for event in fetched}
        assert urls <= {"file", "blob", "data"}
    finally:
        made.driver.quit()


def test_a_page(browser: Browser) -> None:
    """The page draws, unfolds what is searched, shows details and changes, and steps stages."""
    assert browser.drawn() > 2
    assert (
        browser.driver.execute_script("return document.getElementById('stage').options.length") > 1
    )
    legend = browser.driver.execute_script("return document.getElementById('legend').textContent")
    assert legend.startswith("fused") == (browser.text("h1") == "compared")
    earlier = browser.driver.find_element("css selector", "#earlier").is_enabled()
    browser.redrawn(lambda: browser.click("#earlier" if earlier else "#later"))
    word = WORDS[browser.text("h1")]
    browser.redrawn(lambda: browser.type("#search", f"{word}\n"))
    assert browser.driver.find_elements("css selector", "#canvas .chosen")
    assert browser.text("#details h2").startswith("pd.")
    browser.click("#details .close")
    unfolded = browser.drawn()
    browser.redrawn(lambda: browser.click("#fold"))
    assert browser.drawn() <= unfolded
    browser.click("[data-view=diff]")
    assert browser.text("#view-diff")
    browser.click("[data-view=overview]")
    assert "flag or pass" in browser.text("#view-overview")
    browser.click("[data-view=numbers]")
    assert "parameters and other state" in browser.text("#view-numbers")
    bar = browser.driver.find_element("css selector", ".bar")
    segments = bar.find_elements("css selector", "i")
    assert segments and sum(each.size["width"] for each in segments) > 0.9 * bar.size["width"]
    against = browser.driver.find_element("css selector", "[data-view=against]")
    assert against.is_displayed() == (browser.text("h1") == "compared")
    if against.is_displayed():
        against.click()
        assert "fused_batch_norm_act" in browser.text("#view-against")
    wide = browser.driver.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide <= 0


def test_it_opens_on_what_fused(browser: Browser) -> None:
    """It opens on fusions: side by side on a desktop, the result on a phone, with op counts."""
    name, is_wide = browser.text("h1"), browser.width > 700
    sides = browser.texts("#canvas > .title")
    shown = browser.driver.execute_script(
        "const s = document.getElementById('stage'); return s.options[s.value].textContent"
    )
    if name == "compared":  # it opens on what differs
        assert shown != "before | after"
        return
    assert (shown == "before | after") == is_wide
    assert [side.split(" ")[0] for side in sides] == (["before", "after"] if is_wide else [])
    assert any(text.endswith(" fused") for text in browser.texts("#canvas .badge"))
    if name == "resnet":  # a box of several that are alike says the ops of each, on both sides
        words = [text for text in browser.texts("#canvas .small") if text.startswith("each ")]
        befores = [text for text in words if text == "each 3 conv2d, 3 batch_norm, 3 relu, add"]
        assert bool(befores) == is_wide
        assert any("fused_batch_norm_act" in text for text in words), words
    tops = browser.driver.execute_script(
        "return [...document.querySelectorAll('#canvas > .title')]"
        ".map(each => Math.round(each.getBoundingClientRect().top))"
    )
    assert len(set(tops)) <= 1
    # it can be read: no text of a box is smaller than this
    heights = browser.driver.execute_script(
        "return [...document.querySelectorAll('#canvas g[data-node] text')]"
        ".map(each => each.getBoundingClientRect().height)"
    )
    assert min(heights) > (7 if is_wide else 8)


COVERED = """
    const drawing = document.getElementById('drawing').getBoundingClientRect();
    const over = ['#legend', '#zoom'].map(id => document.querySelector(id).getBoundingClientRect());
    return [...document.querySelectorAll('#canvas rect')].map(each => each.getBoundingClientRect())
      .filter(r => over.some(o => o.height && r.left < o.right && r.right > o.left
        && r.top < o.bottom && Math.min(r.bottom, drawing.bottom) > o.top)).length
"""


def test_nothing_lies_over_a_box(browser: Browser) -> None:
    """Fit leaves room for legend and buttons; on a phone these have their own bar."""
    browser.click("#whole")
    assert browser.driver.execute_script(COVERED) == 0
    if browser.width > 700:
        return
    browser.redrawn(lambda: browser.click("#unfold"))
    for _ in range(4):
        browser.click("#closer")
        assert browser.driver.execute_script(COVERED) == 0
    for button in ("#closer", "#farther", "#whole"):
        found = browser.driver.find_element("css selector", button).rect
        assert found["x"] >= 0 and found["x"] + found["width"] <= browser.width


def test_long_names_leave_room_for_values(browser: Browser) -> None:
    """The longest attribute of an op takes less than half of its panel."""
    if browser.text("h1") != "transformer":
        return
    browser.type("#search", "fused_attention")
    browser.redrawn(lambda: browser.click("#matches button"))
    browser.wait("return !document.getElementById('details').hidden")
    widths = browser.driver.execute_script(
        "return [...document.querySelectorAll('#details dt, #details dd')]"
        ".map(each => [each.tagName, each.getBoundingClientRect().width])"
    )
    names = [width for tag, width in widths if tag == "DT"]
    values = [width for tag, width in widths if tag == "DD"]
    assert max(names) < min(values)
    assert browser.text("#details").count("\nfused\n") == 1


def test_what_is_not_found_is_told(browser: Browser) -> None:
    """A search without results is reported, also after Enter; blocks are found by name."""
    browser.type("#search", "no such op\n")
    assert "nothing found for" in browser.text("#matches")
    browser.driver.execute_script("document.getElementById('search').value = ''")
    browser.type("#search", "layer ")
    assert "▣" in browser.text("#matches")
    browser.redrawn(lambda: browser.click("#matches li:last-child button"))
    assert browser.driver.find_elements("css selector", "#canvas g[aria-expanded=true]")


def test_measured_times(browser: Browser) -> None:
    """Ops are colored by their time or memory; a row of the table leads to its op."""
    shown = browser.driver.find_element("css selector", "[data-view=time]").is_displayed()
    assert shown == (browser.text("h1") not in ("imported", "compared"))
    if not shown:
        assert not browser.driver.find_elements("css selector", "#canvas .measured, .switch")
        return
    assert "%" in browser.text("#canvas")
    assert browser.driver.find_elements("css selector", "#canvas .measured")
    browser.click("[data-colours=memory]")
    assert "B" in browser.text("#canvas") and "%" not in browser.text("#canvas")
    browser.click("[data-colours=passes]")
    assert not browser.driver.find_elements("css selector", "#canvas .measured")
    browser.click("[data-colours=time]")
    browser.click("[data-view=time]")
    assert "A step takes" in browser.text("#view-time")
    rows = browser.driver.find_elements("css selector", "#view-time tbody tr")
    times = [row.find_elements("css selector", "td")[4].text for row in rows[:3]]
    assert times == sorted(times, key=float, reverse=True)
    browser.click("#view-time [data-order='3']")
    name = browser.text("#view-time tbody button")
    browser.redrawn(lambda: browser.click("#view-time tbody button"))
    browser.wait("return document.querySelector('#canvas .chosen')")
    assert browser.text("#details h2") == f"pd.{name}"
    details = browser.text("#details")
    assert "of the step" in details and "at the memory peak" in details
    assert browser.driver.execute_script(
        "const r = document.querySelector('#canvas .chosen').getBoundingClientRect();"
        "return r.left < innerWidth && r.right > 0 && r.top < innerHeight && r.bottom > 0"
    )
    if browser.driver.find_element("css selector", "#earlier").is_enabled():
        browser.redrawn(lambda: browser.click("#earlier"))
        assert not browser.driver.find_elements("css selector", "#canvas .measured, .switch")


def test_without_a_mouse(browser: Browser) -> None:
    """By keyboard, clusters unfold and details open, also for elements out of sight."""

    def enter(selector: str) -> None:
        found = browser.driver.find_element("css selector", selector)
        browser.driver.execute_script("arguments[0].focus()", found)
        found.send_keys("\n")

    if browser.driver.find_elements("css selector", "#canvas g.folded"):
        before = browser.drawn()
        browser.redrawn(lambda: enter("#canvas g.folded"))
        assert browser.drawn() > before
    enter("#canvas g[data-node]")
    assert browser.text("#details h2")
