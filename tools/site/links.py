"""Checks that each address in the built pages leads somewhere, and that none is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

ADDRESS = re.compile(r'<(\w+)\b[^>]*?\s(?:href|src)="([^"]*)"')
ANCHOR = re.compile(r'\s(?:id|name)="([^"]*)"')


def broken(site: Path) -> Iterator[str]:
    """What is wrong with the addresses in the pages of a site; live pages contain their own."""
    for page in sorted(site.rglob("*.html")):
        if page.is_relative_to(site / "live"):
            continue
        for tag, address in ADDRESS.findall(page.read_text(encoding="utf-8")):
            problem = problem_with(tag, urlsplit(unescape(address)), page)
            if problem:
                yield f"{page.relative_to(site)}: {address}: {problem}"


def problem_with(tag: str, address: SplitResult, page: Path) -> str:
    if address.scheme or address.netloc:
        return "" if tag == "a" or address.scheme == "data" else "is loaded from elsewhere"
    file = (page.parent / unquote(address.path)).resolve() if address.path else page
    if not file.is_file():
        return "there is no such file"
    if address.fragment and file.suffix == ".html" and unquote(address.fragment) not in anchors(file):
        return "there is no such place on that page"
    return ""


@cache
def anchors(page: Path) -> set[str]:
    return {unescape(name) for name in ANCHOR.findall(page.read_text(encoding="utf-8"))}
