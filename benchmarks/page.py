"""`python -m benchmarks.page RUN`: the size of a run's walk-through page, and its speed in a browser.

Times are wall time, so the machine must be idle: from the start of loading to the first picture and to the
first numbers, and from a keystroke in the sentence to the frame that shows all new numbers.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from minitransformer.errors import UserError
from minitransformer.explain import explain

from .measuring import spread
from .tables import Table

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SENTENCE = "You love the cat and the dog"
READY = """() => {
  const [navigation] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return [paint.startTime, navigation.domContentLoadedEventEnd];
}"""
TYPED = """async text => {
  const input = document.getElementById("sentence");
  const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
  await frame();
  const start = performance.now();
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await frame(); // of the new numbers
  await new Promise(resolve => setTimeout(resolve));
  return performance.now() - start;
}"""


def measure(page: str, loads: int = 5, sentence: str = SENTENCE) -> Table:
    """The page's bytes; milliseconds to the first picture, to the first numbers, and of keystrokes."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("pages are measured with playwright.\nInstall it: pip install playwright") from None
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise UserError(f"there is no browser.\nInstall one of {', '.join(BROWSERS)}.")
    times: dict[str, list[float]] = {"first picture, ms": [], "first numbers, ms": []}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(loads):
            tab = browser.new_page(viewport={"width": 1280, "height": 800})
            tab.goto(file.as_uri())
            tab.wait_for_selector("body.ready")
            tab.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
            for name, value in zip(times, tab.evaluate(READY), strict=False):
                times[name].append(value)
            if len(times["first picture, ms"]) < loads:
                tab.close()
        for stage in ("walkthrough", "softmax", "alignment", "loss", "pull", "backward"):
            times |= _typed(tab, stage, sentence)
        browser.close()
    table = Table("the walk-through page, by the clock")
    for name, values in times.items():
        table.rows[name] = {"median": spread(values), "largest": f"{max(values):,.0f}"}
    table.rows["size, MB"] = {"median": f"{len(page.encode()) / 1e6:.2f}", "largest": ""}
    return table


def _typed(tab: Any, stage: str, sentence: str) -> dict[str, list[float]]:
    """Each keystroke of the sentence, on a stage, without and with gradients."""
    tab.evaluate("stage => { location.hash = stage; }", stage)
    tab.locator(f"h2#{stage}").wait_for()
    found: dict[str, list[float]] = {}
    for gradients in ("", ", with gradients"):
        if gradients:
            tab.locator('[data-key="gradients"]').click()
        typed = [sentence[: i + 1] for i in range(len(sentence))]
        found[f"a keystroke on #{stage}{gradients}, ms"] = [tab.evaluate(TYPED, text) for text in typed]
    tab.locator('[data-key="gradients"]').click()
    return found


def main(run: tyro.conf.Positional[Path], text: tyro.conf.Positional[str] = "I love you") -> None:
    """Measure the walk-through page of a run."""
    try:
        table = measure(explain(run, text).page)
    except UserError as error:
        sys.exit(f"error: {error}")
    Console().print(table.rich())


if __name__ == "__main__":
    tyro.cli(main)
