"""`python -m benchmarks.page [RUN ...]`: the walk-through pages of runs, their size and speed in a browser.

Without a run, the recipe phrasebook is trained (two minutes), and a GPT, a BERT, a ViT and an LSTM of width
224 for a few steps. A keystroke's time goes to the frame that shows all new numbers; a frame of Play is what
its drawing takes. `--clock cpu`, for a busy machine, counts what the page's thread computes, and no waiting.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from minitransformer.cli.parsing import parse
from minitransformer.data.splits import phrasebook_splits
from minitransformer.errors import UserError
from minitransformer.explain import explain
from minitransformer.explain.runs import default_text
from minitransformer.runs.run import Run

from . import machine
from .tables import Table

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
RECIPES = ("phrasebook", "shakespeare-char-cpu", "bert-mlm", "digits-vit", "lstm-char")
TIMES = 10  # keystrokes of a figure
WRITTEN = 8  # tokens that the page lets a language model write
MOMENTS = 60  # moments of Play to measure
READY = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
CHANGED = """async ([selector, value, isFrame]) => {
  const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
  await frame();
  const element = document.querySelector(selector);
  const start = performance.now();
  if (value === null) element.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
  else element.value = value;
  element.dispatchEvent(new Event("input", { bubbles: true }));
  element.dispatchEvent(new Event("change", { bubbles: true })); // a large model does not run before
  if (!isFrame) await frame(); // of the new numbers
  await new Promise(resolve => setTimeout(resolve));
  return performance.now() - start;
}"""


@dataclass
class Tab:
    """A page in the browser, by a clock."""

    page: Any
    session: Any
    clock: str

    def change(self, selector: str, value: Any, is_frame: bool = False) -> float:
        """The milliseconds of a new value; None presses the space bar."""
        before = self._computed()
        wall = self.page.evaluate(CHANGED, [selector, value, is_frame])
        return self._computed() - before if self.clock == "cpu" else wall

    def _computed(self) -> float:
        found = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(each["value"] for each in found if each["name"] == "TaskDuration")

    def type(self, texts: list[Any]) -> list[float]:
        selector = "#sentence" if texts[0] is not None else "[data-key^='board']"
        return [self.change(selector, text) for text in texts]


def measure(page: str, text: str | None, clock: str = "wall", times: int = TIMES) -> dict[str, Any]:
    """The figures of a page: of typing a text's last letters, or for a ViT (None) of drawing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("pages are measured with playwright.\nInstall it: pip install playwright") from None
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise UserError(f"there is no browser.\nInstall one of {', '.join(BROWSERS)}.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        tab.goto(file.as_uri())
        tab.wait_for_selector("body.ready")
        row = {"size, MB": len(page.encode()) / 1e6, "first numbers": tab.evaluate(READY)}
        row |= _figures(Tab(tab, session, clock), text, times)
        browser.close()
    return row


def _figures(tab: Tab, text: str | None, times: int) -> dict[str, Any]:
    last: list[Any] = (
        [None] * times if text is None else [text[: len(text) - i] for i in reversed(range(times))]
    )
    first: list[Any] = [] if text is None else [text[i] + text[:-1] for i in range(times)]
    tab.type(last[:1])
    row: dict[str, Any] = {"keystroke": statistics.median(tab.type(last))}
    row["at the start"] = statistics.median(tab.type(first)) if first else None
    gradients = tab.page.locator('[data-key="gradients"]')
    gradients.click()
    row["with gradients"] = statistics.median(tab.type(last))
    gradients.click()
    row |= _play(tab)
    return row | {"slowest stage": _slowest(tab, last[-3:])}


def _play(tab: Tab) -> dict[str, float]:
    """The frames between Play's first and last moment."""
    play = tab.page.locator('[data-key="play"]')
    play.click()
    play.click()
    moments = [round(1000 * i / (MOMENTS - 1)) for i in range(MOMENTS)]
    found = [tab.change("#timeline", moment, is_frame=True) for moment in moments]
    tab.change("#timeline", 500)  # the model has run; no gradients are shown
    return {"frame of Play": statistics.median(found), "largest": max(found)}


def _slowest(tab: Tab, texts: list[Any]) -> str:
    """The stage where a keystroke takes longest."""
    found: dict[str, float] = {}
    for stage in tab.page.locator("#map .stages a").evaluate_all("links => links.map(link => link.hash)"):
        tab.page.evaluate("stage => { location.hash = stage; }", stage)
        tab.page.locator(f"h2{stage}").wait_for()
        if texts[0] is not None or tab.page.locator("[data-key^='board']").count():
            found[stage] = statistics.median(tab.type(texts))
    slowest = max(found, key=lambda stage: found[stage])
    return f"{found[slowest]:.0f} {slowest}"


def pages(folder: Path, tokens: tuple[int, ...], clock: str, times: int = TIMES) -> dict[str, dict[str, Any]]:
    """The figures of a run's page: of texts of several lengths, if a token is a character."""
    run = Run(folder)
    if run.tokenizer is None:  # reads images
        return {folder.name: measure(explain(run).page, None, clock, times)}
    text = default_text(run)
    while len(text) <= times:
        text += f" {text}"
    if run.tokenizer.layout != "char":
        return {folder.name: measure(explain(run, text).page, text, clock, times)}
    most = getattr(run.model, "max_length", None) or max(tokens) + WRITTEN
    lengths = dict.fromkeys(min(n, most - WRITTEN) for n in tokens)
    texts = {n: (f"{text} " * n)[:n] for n in lengths}
    return {
        f"{folder.name} {n} tokens": measure(explain(run, text[:20]).page, typed, clock, times)
        for n, typed in texts.items()
    }


def train(recipe: str, folder: Path) -> Path:
    """A run of a recipe: phrasebook whole, since the length of its answers counts; others in three steps."""
    command = [sys.executable, "-m", "minitransformer", "train", recipe, "--run-dir", str(folder / recipe)]
    if recipe != "phrasebook":
        command += ["--steps", "3"]
    if recipe.endswith(("char", "char-cpu")):
        text = folder / "text.txt"
        text.write_text(
            "\n".join(english for english, _ in phrasebook_splits()["train"][:400]), encoding="utf-8"
        )
        command += ["--data", str(text)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / recipe


def main(
    runs: tuple[Path, ...] = (),
    *,
    tokens: tuple[int, ...] = (60, 200),
    clock: Literal["wall", "cpu"] = "wall",
) -> None:
    """Measure the walk-through pages of runs."""
    load = machine.load_average()
    table = Table(f"walk-through pages, milliseconds of {clock} time")
    try:
        with tempfile.TemporaryDirectory() as folder:
            for run in runs or RECIPES:
                found = pages(train(run, Path(folder)) if isinstance(run, str) else run, tokens, clock)
                for page, figures in found.items():
                    for name, figure in figures.items():
                        table.rows.setdefault(name, {})[page] = figure
    except UserError as error:
        sys.exit(f"error: {error}")
    if load is not None:
        table.notes.append(f"load average {load:.2f} before, {machine.load_average():.2f} after")
    Console().print(table.rich())


if __name__ == "__main__":
    parse(main)
