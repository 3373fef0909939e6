"""A headless Chromium for tests of pages: found on the machine, shut off from the network, and watched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright (pip)")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"pages are tested in Chromium; none of {', '.join(NAMES)} is on the PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that was opened from a file, and everything it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)  # a busy machine is slow
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri() + fragment)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def click(self, box: str) -> None:
        """Press a box of the drawing, wherever the view is."""
        self.page.locator(f"#{box}").dispatch_event("click")

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def text(self, selector: str) -> str:
        return "\n".join(self.texts(selector))

    def numbers(self, selector: str) -> list[float]:
        """Every number shown in what matches: the cells of tables and lone numbers."""
        return [float(text) for text in self.texts(f"{selector} td, {selector} p.number")]

    def violations(self) -> list[str]:
        """What axe-core finds wrong for people who do not use a mouse or their eyes."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
        found = axe.Axe().run(self.page).response["violations"]
        return [f"{v['id']}: {v['help']}: {[node['html'][:200] for node in v['nodes'][:3]]}" for v in found]

    def close(self) -> None:
        """The page must have been silent, and have asked for nothing but itself."""
        self.context.close()
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
