"""The page of a recurrent language model: its stages, its picture, and the numbers that they show."""

import numpy as np
import pytest

from minitransformer import generate
from minitransformer.explain import Switches, record
from tests.explain.test_page import (
    STAGE,
    TABLES,
    addresses,
    all_agree,
    check_against,
    page_of,
    recurrent,
    shown,
    words,
)

OWN = ["#gates", "#memory", "#through-time"]
TEXT = "you love the cat"
ATTENDS = {"#attention", "#qkv", "#softmax", "#heads", "#mask", "#add-norm", "#feed-forward", "#positions"}


def read_and_written(model, text=TEXT):
    """The ids that the page runs, and their labels."""
    source = words().encode(text)
    (written,) = generate(model, [source], 8)
    every = [*source, *written]
    return every[:-1], every[1:], len(source)


def test_recurrent_pages_match_the_engine(open_page):
    model = recurrent()
    page = open_page(page_of(model, TEXT, 30))
    links = addresses(page)
    assert set(OWN) <= set(links)
    assert not ATTENDS & set(links)
    source, labels, _ = read_and_written(model)
    found = record(model, source)
    assert check_against(shown(page), found.arrays, "av") > 400
    page.press("g")
    gradients = found.backward(labels)
    assert check_against(shown(page), gradients.activations, "ag") > 400
    assert not page.page.locator("#toolbar .answer").text_content().endswith("→")


def test_the_gates_stage_shows_the_chosen_token(open_page):
    model = recurrent()
    page = open_page(page_of(model, TEXT, 30), "#gates:layers.1")
    source, _, _ = read_and_written(model)
    arrays = record(model, source).arrays
    assert page.page.locator("#map .here").get_attribute("aria-label") == "State, layer 2"
    page.page.locator('[data-key="Step:2"]').click()
    page.page.locator('[data-key="slider:Number"]').fill("5")
    tiles = page.page.locator(".tile button").evaluate_all(
        "all => all.map(b => [b.dataset.key, b.textContent])"
    )
    shown_ = {tuple(key[3:].split(":")): text for key, text in tiles}
    assert len(shown_) == 9  # the four gates, the cell before, what is kept, the cell, its tanh and the state
    for (name, index), text in shown_.items():
        t, j = map(int, index.split(","))
        assert (t, j) in ((2, 5), (1, 5))
        assert float(text.replace("−", "-")) == pytest.approx(arrays[name][t, j], rel=1e-3)
    before = {name for (name, index) in shown_ if index == "1,5"}
    assert before == {"layers.1.cell"}
    page.page.locator('.tile button[data-key="av:layers.1.hidden:2,5"]').click()
    assert "output gate o · tanh of the cell" in page.text("#inspector .equation")


def test_cell_memory_is_the_product_of_forget_gates(open_page):
    model = recurrent()
    page = open_page(page_of(model, TEXT, 30))
    source, _, _ = read_and_written(model)
    gate = record(model, source).arrays["layers.0.forget_gate"].astype(float)
    (kept, *_) = page.page.evaluate(TABLES, "#memory:layers.0")
    expected = [[gate[s + 1 : t + 1].prod(0).mean() for t in range(s, len(gate))] for s in range(len(gate))]
    all_agree([[text for text in row[1:] if text] for row in kept], expected)


def test_gradient_through_time_belongs_to_one_loss(open_page):
    model = recurrent()
    page = open_page(page_of(model, TEXT, 30))
    source, labels, prompt = read_and_written(model)
    page.page.evaluate(TABLES, "#through-time:layers.1")
    page.page.locator(f'[data-key="Step:{prompt - 1}"]').click()
    (bars,) = page.page.evaluate(TABLES, "#through-time:layers.1")
    alone = record(model, source).backward(labels, positions=[prompt - 1]).activations["layers.1.cell"]
    all_agree([[row[2] for row in bars]], [np.linalg.norm(alone, axis=-1)[prompt - 1 :: -1]])


def test_switching_memory_off_updates_all_numbers(open_page):
    model = recurrent("gru")
    page = open_page(page_of(model, TEXT, 30), "#gates")
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator('[data-key="check:memory"]').click()
    source = words().encode(TEXT)
    arrays = record(model, source, switches=Switches(memory=False)).arrays
    found = {
        key: text for key, text in shown(page, ["#gates"]).items() if int(key[2].split(",")[0]) < len(source)
    }
    assert check_against(found, arrays, "av") > 50


FAULTS = f"""
links => links.flatMap(link => {{
  const screen = ({STAGE})(link);
  const wide = document.documentElement.scrollWidth > innerWidth ? [[link, "wide"]] : [];
  const result = screen.querySelector(".steps-in > :last-child, .time-map, .bars tr");
  const isOwn = ["#walkthrough", "#gates", "#memory", "#through-time"].includes(link);
  const isLow = isOwn && result && result.getBoundingClientRect().bottom > innerHeight;
  return isLow ? [...wide, [link, "low", result.getBoundingClientRect().bottom]] : wide;
}})
"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (390, 844)])
@pytest.mark.slow
def test_recurrent_pages_show_results_without_scrolling(width, height, open_page):
    page = open_page(page_of(recurrent(), "I love you", 30), "#walkthrough?detail=on")
    page.page.set_viewport_size({"width": width, "height": height})
    page.page.evaluate(f"() => {{ ({STAGE})('#walkthrough'); }}")
    tags = page.page.locator(".stage .tag").evaluate_all(
        "tags => tags.map(tag => [tag.getAttribute('aria-label'), tag.getBoundingClientRect().bottom])"
    )
    names = [name for name, _ in tags]
    assert {"State h, layer 1", "State h, layer 2", "Softmax"} <= set(names)
    assert ("Cell c, layer 2" in names) == (width >= 1280)
    assert max(bottom for _, bottom in tags) <= height
    assert page.page.evaluate(FAULTS, addresses(page) if width > 1000 else [*OWN, "#walkthrough"]) == []
