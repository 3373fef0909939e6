"""At each size each stage has its result on the first screen, its place in the map, and nothing overlaps."""

import pytest

from tests.explain.test_page import STAGE, addresses, families, page_of, transformer

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
  const lowest = Math.max(0, ...rows.map(row => box(row).bottom));
  return {{
    wide: document.documentElement.scrollWidth > innerWidth,
    low: innerWidth >= 1280 && lowest > innerHeight,
    over: parts.some((a, i) => parts.slice(i + 1).some(b => overlaps(box(a), box(b)))),
    beyond: innerWidth >= 1280 && parts.some(part => box(part).right > box(left).right + 1),
    lost: here.checkVisibility() && !isSeen,
  }};
}}
"""


def pages():
    return {**dict(families()), "translator": page_of(transformer(d_model=64, d_ff=128), "you love the cat")}


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720), (390, 844)])
@pytest.mark.parametrize("family", ["translator", "gpt", "bert", "vit", "bart", "t5", "lstm", "rnn"])
def test_each_stage_fits(family, size, open_page):
    page = open_page(pages()[family])
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    found = {}
    for stage in addresses(page)[1:]:
        layout = page.page.evaluate(LAYOUT, stage)
        found |= {(stage, fault): True for fault, is_there in layout.items() if is_there}
    assert found == {}
