"""The built site, in a browser: pages are silent, ask for nothing elsewhere, fit, and are accessible.

python -m tools.site && python -m pytest tests/slow/repository/test_site.py
"""

import functools
import http.server
import re
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import chromium

SITE = Path(__file__).parents[3] / "site"
SIZES = ((390, 844), (900, 1000), (1440, 900))
SOURCES = ("source/minigrad/core.html", "source/minigrad/core/backward.py.html", "source/tools/site.html")
PAGES = [
    name
    for page in sorted(SITE.rglob("*.html"))
    if not (name := page.relative_to(SITE).as_posix()).startswith(("source/", "live/"))
]
LIVE = [page.name for page in sorted((SITE / "live").glob("*.html"))]
SHOWN_IN = {"by-hand.html": "index.html", "gradient.html": "index.html"}  # others are in the gallery
LIVE_PAGE = re.compile("Gradients|Walk backward")  # a button of each
MOST_BYTES = 1_000_000  # for the front page, with all that it loads
SEARCHES = {  # a word, and a page that must be among those found
    "softmax": "documents", "mask": "pytorch", "padding": "models", "beam": "generation",
    "warm-up": "documents", "checkpoint": "training", "tokenizer": "your-data", "gradcheck": "your-own",
    "CuPy": "speed", "BLEU": "results", "dropout": "training", "calibration": "documents",
    "NaN": "graphs", "fine-tune": "pretrained", "CSV": "your-data", "LayerNorm": "models",
    "sinusoidal": "models", "Adam": "lessons/12_training", "vmap": "pytorch",
    "MPI": "training", "derivative of layer norm": "ops/networks", "clip_grad_norm_": "api/minigrad.nn.utils",
}  # fmt: skip
FIRST = {  # what is searched, and the first result
    "padding": "models.html#padding",
    "save and load model": "tensors.html#save-and-load-a-model",
    "find a NaN": "graphs.html#find-a-nan",
    "install": "start.html#install",
    "PyTorch": "pytorch.html",
    "layernorm": "a-training-step.html#layer-norm",
    "clip_grad_norm_": "api/minigrad.nn.utils.html#minigrad.nn.utils.clip_grad_norm_",
}

if not PAGES:
    pytest.skip("the site is not built (python -m tools.site)", allow_module_level=True)


class Server(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Server, directory=SITE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


class Tab:
    """A page, what it complained of, and what it loaded."""

    def __init__(self, browser, address, scheme="light"):
        self.address = address
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": 1440, "height": 900})
        self.page.set_default_timeout(60_000)
        self.complaints = []
        self.loaded = {}
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("response", self.load)
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))

    def load(self, response):
        self.loaded[response.url] = response

    def open(self, name):
        self.page.goto(self.address + name)
        return self.page

    def elsewhere(self):
        return [url for url in self.loaded if not url.startswith((self.address, "data:"))]


@pytest.fixture
def tab(browser, address, request):
    opened = Tab(browser, address, getattr(request, "param", "light"))
    yield opened
    opened.page.close()
    assert opened.complaints == []
    assert opened.elsewhere() == []


@pytest.mark.parametrize("tab", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("name", [*PAGES, *SOURCES])
def test_a_page_fits_and_is_accessible_at_three_sizes(name, tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tab.open(name)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = axe.run(page).response["violations"]
        assert [f"{width}: {v['id']}: {[node['html'][:200] for node in v['nodes'][:3]]}" for v in found] == []


def test_the_front_page_loads_less_than_1_mb(tab):
    page = tab.open("index.html")
    page.wait_for_load_state("networkidle")
    sizes = {url: len(response.body()) for url, response in tab.loaded.items()}
    assert 0 < sum(sizes.values()) < MOST_BYTES, sizes
    still = page.locator("article .plays img").get_attribute("src")
    with page.expect_response("**/explain.webp"):
        page.locator("article .plays").click()
    page.locator("article .plays").click()
    assert page.locator("article .plays img").get_attribute("src").endswith(still)


def test_lesson_pages_embed_their_graph(tab):
    page = tab.open("lessons/02_a_number_that_learns.html")
    page.frame_locator("iframe").get_by_text("Walk backward").first.wait_for()


def test_lesson_pages_link_to_their_script(tab):
    link = tab.open("lessons/01_a_word_looks.html").get_by_role("link", name="the script")
    assert link.get_attribute("href") == "../source/demos/lessons/01_a_word_looks.py.html"


def press(page, word, name):
    """Open or close a live page of the gallery by the keyboard alone; its title."""
    title = page.locator(f"article p:has(a[href$='{name}']) :is(img, iframe)").evaluate(
        "it => it.alt ?? it.title"
    )
    page.get_by_role("button", name=f"{word}: {title}", exact=True).press("Enter")
    return title


def wait_for_live_page(page, title):
    frame = page.get_by_title(title, exact=True).content_frame
    frame.get_by_text(LIVE_PAGE).first.wait_for()


@pytest.mark.parametrize("tab", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("name", LIVE)
def test_a_live_page_replaces_its_picture_until_closed(name, tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = tab.open(SHOWN_IN.get(name, "looking-inside.html"))
    page.wait_for_load_state("networkidle")
    assert not any("/live/" in url for url in tab.loaded)
    wait_for_live_page(page, press(page, "Open", name))
    assert [url for url in tab.loaded if "/live/" in url] == [f"{tab.address}live/{name}"]
    found = axe.run(page).response["violations"]
    assert [(v["id"], [node["html"][:200] for node in v["nodes"][:3]]) for v in found] == []
    title = press(page, "Close", name)
    assert page.locator("iframe").count() == 0
    assert page.get_by_alt_text(title, exact=True).is_visible()


@pytest.mark.parametrize("name", LIVE)
def test_live_pages_open_from_a_file_url(name, browser):
    tab = Tab(browser, f"{SITE.as_uri()}/")
    page = tab.open(SHOWN_IN.get(name, "looking-inside.html"))
    wait_for_live_page(page, press(page, "Open", name))
    page.close()
    assert tab.complaints == []
    assert tab.elsewhere() == []


@pytest.mark.parametrize("name", LIVE)
def test_phones_open_a_live_page_full_screen(name, tab):
    tab.page.set_viewport_size({"width": 390, "height": 844})
    page = tab.open(SHOWN_IN.get(name, "looking-inside.html"))
    page.locator(f"article p:has(a[href$='{name}']) button").click()
    page.wait_for_url(f"**/live/{name}")
    page.get_by_text(LIVE_PAGE).first.wait_for()
    assert page.locator("iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def search(words, tab):
    """The addresses that are found, in their order."""
    page = tab.open(f"search.html?q={quote(words)}")
    page.get_by_text("Search finished").wait_for()
    page.wait_for_load_state("networkidle")  # it loads the pages for their summaries
    found = page.locator("#search-results li > a").evaluate_all("links => links.map(a => a.href)")
    return [url.removeprefix(tab.address) for url in found]


@pytest.mark.parametrize("word", SEARCHES)
def test_search_finds_expected_pages(word, tab):
    assert SEARCHES[word] in [address.partition(".html")[0] for address in search(word, tab)]


@pytest.mark.parametrize("words", FIRST)
def test_search_ranks_the_expected_page_first(words, tab):
    assert search(words, tab)[0] == FIRST[words]


def test_search_ranks_explanations_first(tab):
    found = search("download", tab)
    assert not any(address.startswith(("lessons/", "api/", "documents")) for address in found[:4])


def test_search_shows_prose_and_not_code(tab):
    search("NumPy", tab)
    excerpts = tab.page.locator("#search-results p.context").all_inner_texts()
    assert len(excerpts) > 20
    assert not any("import numpy as np" in excerpt for excerpt in excerpts)


def test_a_search_without_results_gives_advice(tab):
    page = tab.open("search.html?q=zzzqqq")
    page.get_by_role("heading", name="Search Results").wait_for()
    said = page.locator("#search-results .search-summary").inner_text()
    assert said == "No page has all these words. Try fewer or other words."
    assert page.locator("#search-results li").count() == 0
