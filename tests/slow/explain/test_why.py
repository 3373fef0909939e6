"""The card of an answer, and where it leads, of each family of models."""

import re

import pytest

from tests.explain.test_page import families, page_of, transformer

BOX = "card => [card.getBoundingClientRect().left, card.getBoundingClientRect().right]"


@pytest.mark.parametrize(
    ("name", "text"), [("transformer", page_of(transformer())), *families()], ids=lambda x: x[:12]
)
def test_answer_cards_work_for_every_model_family(name, text, open_page):
    page = open_page(text, color_scheme="dark")
    for width, height in ((1440, 900), (390, 844)):
        page.page.set_viewport_size({"width": width, "height": height})
        page.page.evaluate("() => dispatchEvent(new Event('resize'))")
        page.page.locator(".candidate").nth(1).press("Enter")
        card = page.page.locator(".answer-card")
        left, right = card.evaluate(BOX)
        assert (left >= 0, right <= width) == (True, True)
        assert not re.search(r"undefined|NaN|\[object", card.inner_text())
        assert page.violations("main") == []
        page.press("Escape")
    page.page.locator(".candidate").first.press("Enter")
    for i in range(page.page.locator(".answer-card a").count()):
        page.page.locator(".answer-card a").nth(i).click()
        page.page.locator("h2#walkthrough").wait_for(state="detached")
        assert not re.search(r"undefined|NaN|\[object", page.text("#screen"))
        page.page.go_back()
        page.page.locator(".answer-card").wait_for()
