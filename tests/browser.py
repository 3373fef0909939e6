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


class Pages:
    """A browser's pages, which are used again: a new one takes more time than most tests of it."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.free: dict[str, list[Any]] = {}

    def take(self, options: dict[str, Any]) -> Any:
        free = self.free.setdefault(str(options), [])
        return free.pop() if free else self.browser.new_context(**options).new_page()

    def give_back(self, page: Any, options: dict[str, Any]) -> None:
        page.goto("about:blank")
        page.set_viewport_size(options["viewport"])
        page.emulate_media(media="null")  # the browser's own
        self.free[str(options)].append(page)


class Watched:
    """A page that was opened from a file, and everything it complained about or asked for."""

    def __init__(self, pages: Pages, file: Path, fragment: str = "", **options: Any) -> None:
        self.pages = pages
        still = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
        self.options = still | options
        self.page = pages.take(self.options)
        self.page.set_default_timeout(60_000)  # a busy machine is slow
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.listeners = {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)
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

    def violations(self, within: str | None = None, **options: Any) -> list[str]:
        """What axe-core finds wrong on the page, or within a part, for those who use no mouse or no eyes."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
        found = axe.Axe().run(self.page, within, options).response["violations"]
        return [f"{v['id']}: {v['help']}: {[node['html'][:200] for node in v['nodes'][:3]]}" for v in found]

    def close(self) -> None:
        """The page must have been silent, and have asked for nothing but itself."""
        self.page.evaluate("0")  # what it did before has been told
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.pages.give_back(self.page, self.options)
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
