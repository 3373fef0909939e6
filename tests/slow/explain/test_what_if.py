"""What if: the whole model beside the changed one, and an address that opens the same view."""

import re

import numpy as np
import pytest

from minitransformer import generate
from minitransformer.explain import Switches, record
from tests.explain.test_page import TABLES, all_agree, exposed, page_of, transformer, vit, words
from tests.explain.test_stage import open_inside
from tests.slow.explain.test_images import PIXELS_OF

PATH = "encoder.layers.0.self_attention"
SWITCH_OFF = "options => page.set({ options: { ...page.options, ...options } })"
OPACITIES = "() => [...document.querySelectorAll('.arc')].map(arc => arc.getAttribute('stroke-opacity'))"
ALPHAS = """
() => {
  const canvas = document.querySelector(".attention-picture canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [...data].filter((_, i) => i % 4 === 3);
}
"""
ORANGE = """
canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.reduce((sum, red, i) => sum + (i % 4 === 0 ? Math.max(0, red - data[i + 2]) : 0), 0);
}
"""
INK = """
path => {
  const block = stageView.layout.blocks.find(block => block.attention === path);
  const [top, bottom] = [block.tileY + block.tileHeight + 2, block.y + block.height - 2];
  const pen = document.createElement("canvas").getContext("2d");
  [pen.canvas.width, pen.canvas.height] = [block.width, bottom - top];
  pen.drawImage(document.getElementById("cells"), -block.x, -top);
  const { data } = pen.getImageData(0, 0, pen.canvas.width, pen.canvas.height);
  return data.reduce((sum, alpha, i) => sum + (i % 4 === 3 ? alpha : 0), 0) / (data.length / 4);
}
"""
STATE = """
() => {
  const { arrays } = page.record;
  const bytes = [...arrays.probabilities.data].slice(0, 12);
  const { screen, text, target, head, step, chosen, path, sampling, options, backward, drawing } = page;
  return { screen, text, target, head, step, chosen, path, sampling, options, backward, drawing, bytes };
}
"""


def test_old_and_new_answers_are_shown_side_by_side(open_page):
    model = transformer()
    tokenizer = words()
    page = open_page(exposed(page_of(model, "I love you")), "#probabilities", bypass_csp=True)
    assert page.page.locator(".ghost, .before").count() == 0
    page.page.evaluate(SWITCH_OFF, {"positions": False, "ablated": {PATH: [1]}})
    source = [*tokenizer.encode("I love you"), tokenizer.end_id]
    (old,) = generate(model, [source], 6)
    assert page.text(".before") == f"before: {tokenizer.decode(old)}"
    target = page.page.evaluate("() => [...page.record.target]")
    before = record(model, source, target).arrays["probabilities"][0]
    after = record(model, source, target, Switches(positions=False, ablated={PATH: [1]})).arrays[
        "probabilities"
    ][0]
    bars = page.page.evaluate(TABLES, "#probabilities")[0][:-1]  # the last are all others
    best = np.argsort(-after, kind="stable")[: len(bars)]
    shown = [row[2].split(" → ") for row in bars]
    all_agree(shown, np.stack([before[best], after[best]], 1))
    tracks = page.page.locator("#screen .bars .track")
    for i in np.flatnonzero(before[best] > 0.005):
        ghost = tracks.nth(int(i)).locator(".ghost").bounding_box()
        whole = tracks.nth(int(i)).bounding_box()
        assert abs(ghost["width"] / (whole["width"] - 16) - before[best[i]]) < 0.02
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator('[data-key="restore"]').click()
    assert page.page.locator(".ghost, .before").count() == 0


def test_the_target_stays_fixed_while_parts_are_off(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you")), "#loss", bypass_csp=True)
    labels = page.page.evaluate("() => [...page.labels()]")
    off = {"causal": False, "ablated": {PATH: [0, 1]}}
    page.page.evaluate(SWITCH_OFF, off)
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.record.target]]")
    whole = record(model, source, target).backward(labels)
    changed = record(model, source, target, Switches(**off)).backward(labels)
    assert page.page.evaluate("() => [...page.labels()]") == labels
    assert page.page.evaluate("() => page.answer.ids") != labels[: len(target)]  # its own is another one
    answer = words().decode([i for i in labels if i != words().end_id])
    assert f"Right answer: “{answer}”, of the whole model." in page.text("#screen .right-answer")
    shown = page.page.evaluate(TABLES, "#loss")[0]
    all_agree([row[4].split(" → ") for row in shown], np.stack([whole.losses, changed.losses], 1))
    mean = page.text("#screen p:has(.mean-loss)").partition(": ")[2]
    all_agree([mean.split(" → ")], [[whole.loss, changed.loss]])
    page.page.locator('[data-key="what-if"]').click()
    all_agree([page.text(".loss-change").split(" → ")], [[whole.loss, changed.loss]])


def test_the_overview_explains_what_was_switched_off(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you")), bypass_csp=True)
    assert page.page.locator(".outline").count() == 0
    text = lambda selector: page.text(f".stage {selector}").replace("\xa0", " ")
    page.page.evaluate(SWITCH_OFF, {"positions": False})
    assert "cannot tell “I love you” from “you love I”: it is the same bag of words" in text(".taken-away")
    reads_its_own = "page.record.target.slice(1).every((id, t) => id === page.answer.ids[t])"
    assert page.page.evaluate(reads_its_own)
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.before.reading.target]]")
    labels = page.page.evaluate("() => [...page.rivals.labels]")  # the whole model's answer
    off = Switches(positions=False)
    passes = [record(model, source, target), record(model, source, target, off)]
    said = re.findall(r"(\S+ %) → (\S+ %)", text(".what-changed"))
    p = np.stack([found.arrays["probabilities"][range(len(labels)), labels] for found in passes], 1)
    moved = sorted(np.argsort(-abs(p[:, 1] - p[:, 0]))[:3])
    all_agree(said, p[moved])
    losses = re.findall(r"answer: (\S+) → (\S+)\.$", text(".what-changed"))
    all_agree(losses, [[found.backward(labels).loss for found in passes]])
    assert page.page.locator(".outline").is_visible()  # the legend of the dashed bars

    # the same words in another order give the same probabilities
    page.page.locator('[data-key="twin"]').click()
    assert page.page.input_value("#sentence") == "you love I"
    assert page.page.evaluate("() => [...page.labels()]") == labels
    shuffled = page.page.evaluate("() => [...page.record.source]")
    assert sorted(shuffled) == sorted(source) != shuffled
    other = record(model, shuffled, target, off).arrays["probabilities"][range(len(labels)), labels]
    assert np.allclose(other, p[:, 1], atol=1e-5)
    assert text(".twins").startswith("Both orders give the same probabilities: ")
    all_agree(re.findall(r"(\S+ %) = (\S+ %)", text(".twins")), np.stack([p[:, 1], other], 1)[:5])
    address = page.page.evaluate("() => addressOf(page)")
    again = open_page(exposed(page_of(model, "I love you")), address, bypass_csp=True)
    assert again.text(".twins") == page.text(".twins")
    page.page.locator('[data-key="twin"]').click()
    assert page.page.input_value("#sentence") == "I love you"
    page.page.fill("#sentence", "I love the cat")
    assert page.page.evaluate("() => page.twin") is None


def test_without_the_mask_the_top_words_match_what_was_written(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you")), bypass_csp=True)
    page.page.evaluate(SWITCH_OFF, {"causal": False})
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.record.target]]")
    shown = page.page.locator(".says .best title").all_text_contents()
    off = Switches(causal=False)
    for t, said in enumerate(shown):  # each from a pass over what was written before
        p = record(model, source, target[: t + 1], off).arrays["probabilities"][-1]
        word, share = said.rsplit(": ", 1)
        assert word == page.page.evaluate("id => shownToken(page.wordOf(id))", int(p.argmax()))
        all_agree([[share]], [[p.max()]])
        if t + 1 < len(target):
            assert p.argmax() == target[t + 1]


@pytest.mark.parametrize(
    ("off", "says"),
    [
        ({"scale": False}, "√d = 2.45 times as large"),
        ({"causal": False}, "also sees those after it"),
        ({"ablated": {PATH: [1]}}, "Head 2 of encoder layer 1's self-attention gives 0: what it takes"),
        ({"ablated": {PATH: [1, 0]}}, "All heads of encoder layer 1's self-attention give 0: what they take"),
        (
            {"scale": False, "ablated": {PATH: [0]}},
            "Off: scaling, head 1 of encoder layer 1's self-attention.",
        ),
    ],
)
def test_each_switched_off_part_is_explained(off, says, open_page):
    page = open_page(exposed(page_of(transformer(), "I love you")), bypass_csp=True)
    page.page.evaluate(SWITCH_OFF, off)
    assert says in page.text(".stage .taken-away")
    page.page.set_viewport_size({"width": 1280, "height": 720})
    heights = page.page.locator(".panel").evaluate("panel => [panel.scrollHeight, panel.clientHeight]")
    assert heights[0] <= heights[1]
    assert page.violations() == []


def test_the_switch_menu_hides_no_answer_and_closes_on_leaving(open_page):
    page = open_page(page_of(transformer(), "I love you"))
    menu = page.page.locator(".switches > div")
    for width, height in ((1440, 900), (1280, 720), (1024, 768), (390, 844)):
        page.page.set_viewport_size({"width": width, "height": height})
        for leave in ("Escape", "ArrowRight", "outside"):
            page.page.locator('[data-key="what-if"]').click()
            box = menu.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            says = [each.bounding_box() for each in page.page.locator(".says").all()]
            if says and width >= 1000:
                assert box["x"] > max(each["x"] + each["width"] for each in says)
            page.press(leave) if leave != "outside" else page.page.mouse.click(width - 3, height - 3)
            assert not menu.is_visible()
        page.page.evaluate("() => { location.hash = '#walkthrough'; }")
        page.page.locator(".stage").wait_for()


def test_switched_off_heads_are_dimmed(open_page):
    page = open_page(page_of(transformer()), f"#heads:{PATH}?heads={PATH}-2")
    dim = lambda selector: page.page.locator(selector).evaluate_all(
        "all => all.map(x => getComputedStyle(x).opacity < 1)"
    )
    assert dim(".head .plain") == [False, True]
    page.page.evaluate("() => { location.hash = '#softmax'; }")
    page.page.locator("h2#softmax").wait_for()
    assert dim("#screen [aria-label=Head] button") == [False, True]


def test_lines_and_arcs_of_switched_off_heads_are_dimmed(open_page):
    page = open_inside(open_page, page_of(transformer()), f"#softmax:{PATH}?head=2")
    arcs = lambda: np.array([float(x) for x in page.page.evaluate(OPACITIES)])
    cells = lambda: np.array(page.page.evaluate(ALPHAS))
    switch = lambda heads: page.page.evaluate(SWITCH_OFF, {"ablated": {PATH: heads}})
    bright = arcs()
    switch([1])
    assert len(bright) > 3
    assert np.allclose(arcs(), 0.2 * bright, atol=0.006)
    assert "(off" in page.text(".beside h3")
    page.page.locator('[data-key="picture:Heat map"]').click()
    assert set(cells()) == {51}  # of 255
    switch([])
    assert set(cells()) == {255}
    page.page.evaluate(
        "() => { page.set({ target: 'the mat' }); go('walkthrough'); }"
    )  # its own weights do not depend on what is off
    inks = {}
    for lines in (None, 0, 1):
        for heads in ([], [1], [0, 1]):
            page.page.evaluate("lines => page.set({ pictureHead: lines })", lines)
            switch(heads)
            inks[lines, len(heads)] = page.page.evaluate(INK, PATH)
    assert inks[None, 0] > 1.3 * inks[None, 1] > 1.3 * inks[None, 2]  # the mean of both
    assert (
        abs(inks[0, 0] / inks[0, 1] - 1) < 0.05
    )  # the answer of before takes a line, so the picture is lower
    assert inks[0, 1] > 2 * inks[0, 2]
    assert inks[1, 0] > 2 * inks[1, 1] == 2 * inks[1, 2]


def test_image_overlays_of_switched_off_heads_are_dimmed(open_page):
    text = vit()
    ink = []
    for heads in ("", f"?heads={PATH}-1"):
        page = open_page(text, f"#looks{heads}")
        ink.append(page.page.locator(".looks .chooser canvas").evaluate(ORANGE))
        assert ("off" in page.text(".looks h3")) == bool(heads)
    assert ink[0] > 3 * ink[1] > 0


def test_a_copied_link_opens_the_same_view(open_page):
    page = open_page(exposed(page_of(transformer(), "I love you", 9)), "#softmax", bypass_csp=True)
    page.page.fill("#sentence", "you love: the cat?&#")
    page.page.evaluate(SWITCH_OFF, {"causal": False, "scale": False, "ablated": {PATH: [0]}})
    page.page.evaluate(
        "() => page.set({ target: 'the mat', head: 1, backward: true, "
        "sampling: { temperature: 1.5, topK: 3, topP: 0.9 } })"
    )
    page.page.evaluate(
        "() => { page.set({ step: 2, chosen: [0, 2] }); go('softmax:decoder.layers.1.self_attention'); }"
    )
    state = page.page.evaluate(STATE)
    page.page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }"
    )
    page.page.locator('[data-key="copy-link"]').click()
    link = page.page.input_value("#link")
    assert page.page.evaluate("() => getSelection().toString()") == link
    for _ in range(100):  # the page's own address follows
        if "target" in page.page.evaluate("() => location.hash"):
            break
        page.page.wait_for_timeout(20)
    addresses = [link.partition("#")[2], page.page.evaluate("() => location.hash.slice(1)")]
    assert all(address.startswith("softmax:decoder.layers.1.self_attention?") for address in addresses)
    for address in addresses:
        other = open_page(exposed(page_of(transformer(), "I love you", 9)), f"#{address}", bypass_csp=True)
        assert other.page.evaluate(STATE) == state
    page.page.evaluate(
        "() => { location.hash = '#softmax?text=I+love+you'; }"
    )  # what it does not name is as at first
    page.page.locator("h2#softmax").wait_for()
    fresh = page.page.evaluate(STATE)
    assert (fresh["target"], fresh["head"], fresh["chosen"], fresh["backward"]) == (None, 0, None, False)
    assert fresh["options"].pop("ablated") == {}
    assert all(fresh["options"].values())


def test_invalid_address_parameters_are_ignored(open_page):
    hostile = f"#heads?step=999&head=-1&loss=x,7000&heads=nothing-1,{PATH}-99&top_p=x&layers=9&path=__proto__"
    hostile += "&cell=__proto__-1-2&moment=x&walk=back-<b>&open=nothing&lines=99&align=-1&stack=toString"
    hostile += "&attention=toString&wave=x-1e9&unit=-5&word=0&beams=1000000&windows=x-1,rr-3"
    page = open_page(exposed(page_of(transformer())), hostile, bypass_csp=True)
    names = "cell pictureHead alignHead lensStack asHeat wave unit word beamCount windows"
    view = page.page.evaluate("names => names.split(' ').map(name => page[name] ?? null)", names)
    assert view == [None, None, None, None, None, 0, 0, 0, 5, {}]
    state = page.page.evaluate(STATE)
    assert (state["step"], state["head"], state["chosen"], state["path"]) == (0, 0, None, PATH)
    assert state["options"]["ablated"] == {PATH: []}
    assert page.page.locator("h2#heads").count() == 1
    page = open_page(page_of(transformer()), hostile.replace("#heads", "#walkthrough"))
    assert page.page.locator(".tag").count() > 5
    page = open_page(page_of(transformer()), "#%zz?%")
    assert page.page.locator(".tag").count() > 5


def test_links_restore_a_drawing(open_page):
    page = open_page(exposed(vit()), "#patches?draw=aq.2b10ac", bypass_csp=True)
    assert page.page.evaluate("() => page.drawing") == "aq..bbbbbbbbbbac"
    assert len(page.page.evaluate("() => page.pixels")) == 16
    assert "draw=aq.2b10ac" in page.page.evaluate("() => addressOf(page)")
    assert any(page.page.evaluate(PIXELS_OF, "#toolbar canvas.image"))


def test_the_overview_outlines_the_previous_probabilities(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you")), bypass_csp=True)
    assert page.page.locator(".says .was").count() == 0
    page.page.evaluate(SWITCH_OFF, {"positions": False})
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.record.target]]")
    before = record(model, source, target).arrays["probabilities"]
    after = record(model, source, target, Switches(positions=False)).arrays["probabilities"]
    best = after[0].argmax()
    assert before[0, best] > 0.005
    bars = [page.page.locator(f".says .{kind}").first.bounding_box()["width"] for kind in ("was", "chance")]
    assert abs(bars[0] / bars[1] - before[0, best] / after[0, best]) < 0.1
