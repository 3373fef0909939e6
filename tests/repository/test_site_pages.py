"""The site's pages before they are built: their order, their links, and the check of all links."""

import re
from pathlib import Path

import pytest

from tools.site.links import broken
from tools.site.names import section
from tools.site.pages import BELOW, CHAPTERS, DOCS, ROOT, UNLISTED, originals, rewrite


def test_each_page_has_one_place_in_the_reading_order():
    places = [page for pages in (*CHAPTERS.values(), *BELOW.values()) for page in pages]
    assert sorted([*places, *UNLISTED, "index"]) == sorted([*originals(), "api"])


def test_links_to_pages_and_lessons_are_rewritten():
    text = "[a](../demos/lessons/01_a_word_looks.py) [b](start.md#if-something-fails) [c](../LICENSE)\n"
    changed = rewrite(DOCS / "speed.md", "speed", text)
    assert changed == "[a](lessons/01_a_word_looks.ipynb) [b](start.md#if-something-fails) [c](../LICENSE)\n"
    assert rewrite(ROOT / "CHANGELOG.md", "changelog", "[d](docs/start.md)") == "[d](start.md)"
    assert rewrite(ROOT / "CHANGELOG.md", "changelog", "![e](docs/explain.webp)") == "![e](explain.webp)"


def test_links_to_the_readme_lead_to_an_unlisted_page():
    assert rewrite(DOCS / "speed.md", "speed", "[f](../README.md#limits)") == "[f](readme.md#limits)"
    assert rewrite(ROOT / "README.md", "readme", "# Title\n").startswith("---\norphan: true\n---\n")


def test_a_link_to_what_writes_the_reference_of_ops_leads_to_it():
    assert rewrite(DOCS / "tensors.md", "tensors", "[a](../tools/reference.py)") == "[a](ops.md)"


def test_a_module_without_a_section_is_an_error():
    assert section(print, "minigrad.core.modes") == "Gradients"
    with pytest.raises(ValueError, match=r"minigrad\.nowhere.*names\.py"):
        section(print, "minigrad.nowhere")


def test_a_link_named_after_a_page_shows_its_title():
    text = "[start.md](start.md)\n```md\n[start.md](../docs/start.md)\n```\n"
    assert rewrite(DOCS / "speed.md", "speed", text) == text.replace("[start.md](start.md)", "[](start.md)")


def test_each_graph_of_a_cell_has_a_page_of_its_own(tmp_path):
    lessons = pytest.importorskip("tools.site.lessons", reason="it needs the extra docs")
    nbformat = pytest.importorskip("nbformat")
    picture = '<img alt="" src="data:image/svg+xml;base64,">'
    graphs = [f'{picture}<iframe title="" srcdoc="&lt;p&gt;{name}"></iframe>' for name in "ab"]
    outputs = [nbformat.v4.new_output("display_data", {"text/html": shown}) for shown in graphs]
    shown = list(lessons.static(outputs, "lesson", tmp_path))
    pages = [re.search(r'<a href="\.\./live/(.*?)">', output.data["text/html"])[1] for output in shown]
    assert [(tmp_path / page).read_text() for page in pages] == ["<p>a", "<p>b"]


def test_search_replaces_what_sphinx_says_when_nothing_is_found():
    sphinx = pytest.importorskip("sphinx", reason="it needs the extra docs")
    search = (ROOT / "tools" / "site" / "static" / "search.js").read_text(encoding="utf-8")
    sentence = "".join(re.findall('"(.*?)"', search.partition("const nothingFound =")[2].partition(";")[0]))
    theirs = Path(sphinx.__file__).parent / "themes" / "basic" / "static" / "searchtools.js"
    assert f'"{sentence}"' in theirs.read_text(encoding="utf-8")


def test_broken_and_external_addresses_are_found(tmp_path):
    (tmp_path / "other page.html").write_text('<p id="here">', encoding="utf-8")
    (tmp_path / "index.html").write_text(
        '<a href="other%20page.html#here"></a> <a href="https://example.org/"></a> <a href="#there"></a>'
        '<a href="other%20page.html#there"></a> <img src="gone.png">'
        '<script src="//example.org/a.js"></script>',
        encoding="utf-8",
    )
    assert list(broken(tmp_path)) == [
        "index.html: #there: there is no such place on that page",
        "index.html: other%20page.html#there: there is no such place on that page",
        "index.html: gone.png: there is no such file",
        "index.html: //example.org/a.js: is loaded from elsewhere",
    ]
