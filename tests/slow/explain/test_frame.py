"""At each size each stage has its result on the first screen, its place in the map, and nothing overlaps."""

import re

import pytest

from minitransformer.explain import explain_documents
from tests.explain.test_page import STAGE, addresses, bert, families, page_of, transformer
from tests.slow.explain.test_images import digits_page

LAYOUT = f"""
link => {{
  const screen = ({STAGE})(link);
  screen.querySelector('[data-key="numbers"][aria-expanded="true"]')?.click();
  const box = element => element.getBoundingClientRect();
  const left = screen.querySelector(".with-side > div") ?? screen;
  const rows = [...left.querySelectorAll(".in-row")];
  const parts = rows.flatMap(row => [...row.querySelectorAll(".sign, figcaption, .cells-box, .row-labels")]);
  const overlaps = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const list = document.querySelector("#map .stages");
  const here = list.querySelector("[aria-current]");
  const isSeen = box(here).top >= box(list).top - 1 && box(here).bottom <= innerHeight;
  const results = [...rows, ...screen.querySelectorAll(".beside .cells-box, .steps-in > :last-child")];
  const shown = innerWidth >= 1280 ? results : rows; // on a phone, what stands beside follows below
  const first = left.querySelector(".bars, .beams, table, svg, canvas") ?? left; // where there is no equation
  const lowest = shown.length ? Math.max(...shown.map(result => box(result).bottom)) : box(first).top + 100;
  const contents = [...screen.querySelectorAll("table, canvas, svg, ul, .beside")];
  const rightmost = Math.max(...contents.filter(each => each.checkVisibility()).map(each => box(each).right));
  const isFixed = ["#looks", "#gates", "#positions"].includes(link); // of a width of their own
  const signs = [...left.querySelectorAll(".in-row .sign")];
  return {{
    wide: document.documentElement.scrollWidth > innerWidth,
    low: lowest > innerHeight,
    empty: innerWidth >= 1280 && !isFixed && rightmost < 0.66 * innerWidth,
    over: parts.some((a, i) => parts.slice(i + 1).some(b => overlaps(box(a), box(b)))),
    beyond: innerWidth >= 1280 && parts.some(part => box(part).right > box(left).right + 1),
    cut: signs.some(sign => sign.scrollWidth > sign.clientWidth + 1),
    lost: here.checkVisibility() && !isSeen,
  }};
}}
"""


TEXTS = ["translator", "gpt", "bert", "classifier", "bart", "t5", "lstm", "gru", "rnn", "documents"]
FAMILIES = [*TEXTS, "vit", "digits"]
OTHERS = {  # words of other families
    "bert": "decoder|translat|character|patch|causal|next word",
    "classifier": "decoder|translat|character|patch|causal|next word|masked",
    "digits": r"decoder|translat|character|causal|\bwords?\b|sentence",
    "lstm": r"decoder|encoder|translat|attention|patch|mask|\bnorm",
}


def page_of_family(family):
    if family == "translator":
        return page_of(transformer(d_model=64, d_ff=128), "you love the cat")
    if family == "classifier":
        return bert("classification", labels=["thing", "place"])
    if family == "digits":
        return digits_page()
    return explain_documents().page if family == "documents" else dict(families())[family]


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720), (390, 844)])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_stage_fits_the_screen(family, size, open_page):
    page = open_page(page_of_family(family))
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    found = {}
    for gradients in (False, True):
        for stage in addresses(page)[1:]:
            layout = page.page.evaluate(LAYOUT, stage)
            found |= {(stage, gradients, fault): True for fault, is_there in layout.items() if is_there}
            if family == "digits" and size[0] == 390 and stage in ("#attention", "#patches"):
                found.pop((stage, gradients, "low"), None)  # 17 patches and their names take two screens
            if family == "documents" and stage == "#pull":
                found.pop((stage, gradients, "empty"), None)  # the tables of three words are narrow
        page.press("g")
    assert found == {}


def test_the_cells_of_small_arrays_are_large(open_page):
    page = open_page(page_of_family("documents"), "#scores")
    sizes = "cells => cells.map(c => [c.clientWidth / c.width, c.clientHeight / c.height])"
    found = page.page.locator("#screen .equation .cells").evaluate_all(sizes)
    assert len(found) == 3
    assert all(width >= 25 and height >= 25 for width, height in found)


@pytest.mark.parametrize("family", OTHERS)
def test_each_family_is_described_in_its_own_terms(family, open_page):
    page = open_page(page_of_family(family))
    texts = [page.page.evaluate(f"link => ({STAGE})(link).innerText", link) for link in addresses(page)]
    found = [text for text in [*texts, page.text("#map")] if re.search(OTHERS[family], text, re.IGNORECASE)]
    assert found == []


def test_encoders_have_no_mask_stage(open_page):
    for family in ("bert", "vit"):
        page = open_page(page_of_family(family))
        assert "#mask" not in addresses(page)
        screen = f"() => ({STAGE})('#attention').innerText"
        assert "mask" not in page.page.evaluate(screen).lower().replace("[mask]", "")


OVERVIEW = """
() => {
  const box = element => element.getBoundingClientRect();
  const stage = box(document.querySelector(".stage"));
  const texts = [...document.querySelectorAll(".over text")];
  const said = document.querySelector(".saying");
  const textOf = elements => elements.map(element => element.textContent);
  const overlaps = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  const isOutside = ({ left, right, top, bottom }) =>
    left < stage.left - 1 || right > stage.right + 1 || top < stage.top - 1 || bottom > stage.bottom + 1;
  return {
    wide: document.documentElement.scrollWidth > innerWidth,
    low: stage.bottom > innerHeight,
    unanswered: box(said).bottom > innerHeight,
    hidden: box(document.querySelector("[data-key=play]")).top < box(document.querySelector("header")).bottom,
    cut: textOf([...document.querySelectorAll(".tag text")]).filter(text => text.includes("…")),
    outside: textOf(texts.filter(text => isOutside(box(text)))),
    over: textOf(texts.filter((a, i) => texts.slice(i + 1).some(b => overlaps(box(a), box(b))))),
  };
}
"""


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720), (390, 844)])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_overview_fits_on_the_first_screen(family, size, open_page):
    page = open_page(page_of_family(family))
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    page.page.evaluate(f"link => {{ ({STAGE})(link); }}", "#walkthrough")
    found = page.page.evaluate(OVERVIEW)
    assert {fault: where for fault, where in found.items() if where} == {}


@pytest.mark.parametrize("family", ["translator", "gpt"])
def test_the_backward_panel_does_not_scroll(family, open_page):
    page = open_page(page_of_family(family))
    page.page.set_viewport_size({"width": 1280, "height": 720})
    page.page.evaluate(f"link => {{ ({STAGE})(link); }}", "#backward")
    step = page.page.locator('[data-key="walk-on"]')
    scrolling = []
    for i in range(60):
        if page.page.locator(".panel").evaluate("panel => panel.scrollHeight > panel.clientHeight + 1"):
            scrolling.append(i)
        if step.is_disabled():
            break
        step.click()
    assert i > 3
    assert scrolling == []
