"""The address holds the whole view: a link opens it again, and so do Back and Forward."""

import pytest

from tests.explain.test_page import exposed, page_of, transformer
from tests.slow.explain.test_what_if import PATH

VIEW = """
() => {
  const computed = `data structure weights model plan screens start record before answer found texts
    textRead gaps prompt backwardPass residual forward measures measuring ranForced written`;
  const passing = "followed addressTimer copied link notice problem drawn quiz question turn";
  const preferences = "letterKeys mapOpen mapOver speed";
  const left = `${computed} ${passing} ${preferences}`.split(/\\s+/);
  const view = Object.fromEntries(Object.entries(page).filter(([name]) => !left.includes(name)));
  const shown = document.getElementById("screen").textContent;
  return JSON.parse(JSON.stringify({ ...view, play: { ...view.play, at: view.play.at.toFixed(3) }, shown }));
}
"""
CHANGE = """
([stage, input, seen, more, path]) => {
  const options = { ...page.options, scale: false, ablated: { [path]: [0] } };
  page.set({ text: "you love the cat", options });
  page.set(input);
  go(stage);
  page.set({ step: 2, chosen: [0, 2], ...seen, ...more });
}
"""
INPUT = {"target": "the mat", "backward": True, "sampling": {"temperature": 1.5, "topK": 3, "topP": 0.9}}
SEEN = {
    "head": 1,
    "letter": "k",
    "query": 2,
    "word": 1,
    "unit": 3,
    "beamCount": 4,
    "windows": {"64": 8, "rows 40": 2},
}
SEEN |= {
    "numbers": True,
    "openWeights": True,
    "compares": True,
    "asHeat": True,
    "pictureHead": 1,
    "alignHead": 0,
}
SEEN |= {"lensStack": "encoder", "wave": 3, "layers": {"encoder": 0, "decoder": 1}}
CROSS = "decoder.layers.1.cross_attention"
PLACE = {"gradient": False, "weight": False}
VIEWS = [
    ("walkthrough", {"play": {"at": 0.3, "step": None, "share": 1, "running": False}, "opened": CROSS}),
    ("walkthrough", {"detail": True}),
    ("walkthrough", {"play": {"at": 0.6, "step": f"back-{CROSS}", "share": 1, "running": False}}),
    ("backward", {"play": {"at": 0.87, "step": None, "share": 1, "running": False}}),
    (f"qkv:{CROSS}", {"cell": {"name": f"{CROSS}.k", "index": [1, 2, 3], "gradient": True, "weight": False}}),
    (
        f"softmax:{CROSS}",
        {"cell": {"name": f"{CROSS}.in_proj_weight", "index": [5, 6], **PLACE, "weight": True}},
    ),
]


def view(page):
    return page.page.evaluate(VIEW)


@pytest.mark.parametrize(("stage", "more"), VIEWS)
def test_links_restore_the_whole_view(stage, more, open_page):
    """Whatever the page's state has is found again, except for what is computed, games and messages."""
    page = open_page(exposed(page_of(transformer(), "I love you")), bypass_csp=True)
    before = view(page)
    page.page.evaluate(CHANGE, [stage, INPUT, SEEN, more, PATH])
    after = view(page)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed >= {*INPUT, *SEEN, *more, "text", "options", "step", "chosen"} - {"path"}
    link = page.page.evaluate("() => addressOf(page, true)")
    other = open_page(exposed(page_of(transformer(), "I love you")), link, bypass_csp=True)
    assert view(other) == after


def test_back_and_forward_restore_the_previous_views(open_page):
    """A stage is a step of the history, what one chooses on it is not: Back finds it as it was left."""
    page = open_page(exposed(page_of(transformer(), "I love you")), bypass_csp=True)
    head = lambda: page.page.evaluate("() => page.head")
    entries = page.page.evaluate("() => history.length")
    page.page.locator('#map a[href="#softmax"]').dispatch_event("click")
    page.page.locator('[data-key="head:1"]').click()
    page.press("ArrowRight")  # at once: the address does not have the head yet
    page.page.locator('[data-key="head:0"]').click()
    page.page.wait_for_function("() => history.state === addressOf(page, true)")
    assert page.page.evaluate("() => history.length") == entries + 2
    page.page.go_back()
    page.page.locator("h2#softmax").wait_for()
    assert (head(), "head=2" in page.page.evaluate("() => location.hash")) == (1, True)
    page.page.go_back()
    page.page.locator("h2#walkthrough").wait_for()
    assert (head(), page.page.evaluate("() => location.hash")) == (0, "")
    page.page.go_forward()
    page.page.locator("h2#softmax").wait_for()
    assert head() == 1
    page.page.go_forward()
    page.page.locator("h2#weighted-sum").wait_for()
    assert head() == 0


def test_slow_walk_steps_carry_over_to_other_layouts(open_page):
    """On a phone a layer is one block, and an embedding before its positions is none."""
    text = page_of(transformer())
    page = open_page(text, f"#walkthrough?moment=612&walk=back-{CROSS}&open={CROSS}&detail=on")
    lit = lambda: page.page.locator(".tag.lit").evaluate_all("all => all.map(tag => tag.textContent)")
    card = lambda: page.page.locator(".card").get_attribute("aria-label")
    assert (lit(), card()) == (["Cross-attention"], "Cross-attention, decoder layer 2")
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.locator('.tag[aria-label="Layer 2, decoder"]').wait_for()
    assert (lit(), card()) == (["Layer 2"], "Layer 2, decoder")
    page.press("Escape")
    assert page.page.locator(".card").count() == 0
    page = open_page(
        text, "#walkthrough?moment=250&walk=on-encoder.scaled", viewport={"width": 390, "height": 844}
    )
    assert page.page.input_value("#timeline") == "250"
    page.page.locator('[data-key="walk-on"]').click()
    assert lit() == ["Tokens"]


@pytest.mark.parametrize(
    "address",
    [
        "#softmax:decoder.layers.9.cross_attention",
        "#add-norm:encoder.layers.7.residual1",
        "#walkthrough?temperature=warm",
    ],
)
def test_address_values_the_model_lacks_keep_their_defaults(address, open_page):
    page = open_page(exposed(page_of(transformer())), address, bypass_csp=True)
    assert page.page.locator(f"h2{address.partition(':')[0].partition('?')[0]}").count() == 1
    assert page.page.evaluate("() => Object.values(page.layers)") == [0, 0]
    assert page.page.evaluate("() => page.sampling.temperature") == 1
