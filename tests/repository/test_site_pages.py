"""The site's pages before they are built: their order and their links."""

import re
from pathlib import Path

import pytest

from tools.site.pages import BELOW, CHAPTERS, DOCS, ROOT, UNLISTED, originals, rewrite


def test_each_page_is_in_the_reading_order_once():
    places = [page for pages in (*CHAPTERS.values(), *BELOW.values()) for page in pages]
    assert sorted([*places, *UNLISTED, "index"]) == sorted([*originals(), "api"])


def test_links_to_pages_and_lessons_are_rewritten():
    text = "[a](../demos/lessons/01_a_word_looks.py) [b](start.md#if-something-fails) [c](../LICENSE)\n"
    changed = rewrite(DOCS / "speed.md", "speed", text)
    assert changed == "[a](lessons/01_a_word_looks.ipynb) [b](start.md#if-something-fails) [c](../LICENSE)\n"
    assert rewrite(ROOT / "CHANGELOG.md", "changelog", "[d](docs/start.md)") == "[d](start.md)"
    assert rewrite(ROOT / "CHANGELOG.md", "changelog", "![e](docs/explain.webp)") == "![e](explain.webp)"


def test_readme_links_lead_to_an_unlisted_page():
    assert rewrite(DOCS / "speed.md", "speed", "[f](../README.md#limits)") == "[f](readme.md#limits)"
    assert rewrite(ROOT / "README.md", "readme", "# Title\n").startswith("---\norphan: true\n---\n")


def test_links_to_the_ops_generator_lead_to_the_ops_page():
    assert rewrite(DOCS / "tensors.md", "tensors", "[a](../tools/reference.py)") == "[a](ops.md)"


def test_a_link_named_after_a_page_shows_its_title():
    text = "[start.md](start.md)\n```md\n[start.md](../docs/start.md)\n```\n"
    assert rewrite(DOCS / "speed.md", "speed", text) == text.replace("[start.md](start.md)", "[](start.md)")


def test_search_replaces_the_no_results_message_of_sphinx():
    sphinx = pytest.importorskip("sphinx", reason="it needs the extra docs")
    search = (ROOT / "tools" / "site" / "static" / "search.js").read_text(encoding="utf-8")
    sentence = "".join(re.findall('"(.*?)"', search.partition("const nothingFound =")[2].partition(";")[0]))
    theirs = Path(sphinx.__file__).parent / "themes" / "basic" / "static" / "searchtools.js"
    assert f'"{sentence}"' in theirs.read_text(encoding="utf-8")
