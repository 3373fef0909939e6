"""What stays in place on the page: the header, the map, the panel; and the signs of gradients."""

import pytest

from minitransformer import GPT, GPTConfig
from tests.explain.test_page import STAGE, page_of, scaled, sizes, transformer

PRESS = 'document.querySelector("#screen button[data-key^=a]").click()'
BARS = """
() => [...document.querySelectorAll(".signed tr")].map(row => {
  const [track, bar] = [".track", ".bar"].map(part => row.querySelector(part).getBoundingClientRect());
  const style = getComputedStyle(row.querySelector(".bar"));
  const middle = track.left + track.width / 2;
  const toLeft = bar.right < middle + 1 && bar.left < middle - 1;
  return [row.cells[2].textContent, toLeft, style.backgroundColor];
})
"""


def box(page, selector):
    return page.page.locator(selector).first.bounding_box()


def within(inner, outer):
    return outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 0.5


def test_negative_gradient_bars_point_left_in_another_colour(open_page):
    page = open_page(page_of(transformer(), "you love the cat", target="the mat"), "#loss")
    found = page.page.evaluate(BARS)
    signs = {text.startswith("−") for text, *_ in found}
    assert signs == {True, False}
    assert [to_left for _, to_left, _ in found] == [text.startswith("−") for text, *_ in found]
    colours = {sign: {colour for text, _, colour in found if text.startswith("−") == sign} for sign in signs}
    assert not colours[True] & colours[False]


def test_the_loss_stage_opens_at_the_largest_loss(open_page):
    page = open_page(page_of(transformer(), "you love the cat"), "#loss")
    page.page.fill('[data-key="target"]', "love mat the you")
    page.page.locator('[data-key="target-go"]').click()
    losses = [float(text) for text in page.texts(".loss")]
    current = page.page.locator(".steps tr.current .loss").inner_text()
    assert float(current) == max(losses) > losses[0]


def test_the_mask_step_first_shows_a_layer_with_masked_scores(open_page):
    page = open_page(page_of(transformer()), "#scores")
    page.press("ArrowRight", "ArrowRight")
    assert page.page.locator("h2#mask").count() == 1
    assert "−∞" in page.text("#screen")
    assert "decoder layer 1" in page.page.locator("#screen select").evaluate("s => s.selectedOptions[0].text")


def test_the_header_map_and_next_stage_stay_visible(open_page):
    config = GPTConfig(**sizes(n_positions=32, n_embd=12, n_layer=6, n_head=2))
    page = open_page(page_of(scaled(GPT(config))), "#feed-forward")
    for width, height in ((1440, 900), (1280, 720)):
        page.page.set_viewport_size({"width": width, "height": height})
        for stage in ("#tokens", "#softmax", "#feed-forward"):
            page.page.evaluate(f"link => {{ ({STAGE})(link); }}", stage)
            screen = {"y": 0, "height": height}
            assert within(box(page, "#map .stages [aria-current]"), box(page, "#map .stages"))
            assert within(box(page, "#map .stages"), screen)
            assert within(box(page, ".title .turn"), screen)
    assert page.page.locator("#map .times").all_text_contents() == ["× 6, here layer 1"]
    page.page.evaluate("scrollTo(0, 400)")
    assert page.page.evaluate("scrollY") > 0
    for part in ("#sentence", ".answer", '[data-key="gradients"]', "#map .stages [aria-current]"):
        assert within(box(page, part), screen), part


def test_the_load_event_does_not_reset_scrolling(open_page):
    page = open_page(page_of(transformer()))
    page.page.set_viewport_size({"width": 1100, "height": 300})
    page.page.evaluate("scrollTo(0, 100)")
    page.page.evaluate("dispatchEvent(new Event('load'))")
    assert page.page.evaluate("scrollY") == 100


def test_nothing_moves_when_the_panel_opens(open_page):
    page = open_page(page_of(transformer()), "#softmax")
    page.page.locator('[data-key="numbers"]').click()
    for width, height in ((1440, 900), (1280, 720), (390, 844)):
        page.page.set_viewport_size({"width": width, "height": height})
        before = box(page, "h2"), box(page, "#screen figure"), box(page, "#screen table.numbers")
        page.page.evaluate(PRESS)
        assert page.page.locator("#inspector").is_visible()
        assert (box(page, "h2"), box(page, "#screen figure"), box(page, "#screen table.numbers")) == before
        panel = box(page, "#inspector")
        assert panel["x"] >= 0.6 * width or panel["y"] >= 0.5 * height
        page.press("Escape")


def test_a_long_unknown_word_does_not_widen_the_page(open_page):
    page = open_page(page_of(transformer(), "I love you"), "#tokens")
    page.page.fill("#sentence", "zebra" * 60)
    assert "zebra" in page.text("#toolbar .unknown")
    assert page.page.evaluate("document.documentElement.scrollWidth") == page.page.evaluate("innerWidth")


def test_side_bars_have_no_borders(open_page):
    page = open_page(page_of(transformer()), "#embeddings")
    borders = "all => all.map(cell => getComputedStyle(cell).borderTopWidth)"
    assert set(page.page.locator(".with-side .bars td").evaluate_all(borders)) == {"0px"}


@pytest.mark.slow
def test_printing_keeps_colours_and_hides_no_content(open_page):
    page = open_page(page_of(transformer()), "#softmax")
    page.page.locator('[data-key="numbers"]').click()
    page.page.evaluate(PRESS)
    page.page.emulate_media(media="print")
    style = "element => [getComputedStyle(element).printColorAdjust, getComputedStyle(element).position]"
    assert page.page.locator("td.probability").first.evaluate(style)[0] == "exact"
    for part in ("header", "#inspector"):
        assert page.page.locator(part).evaluate(style)[1] == "static"
