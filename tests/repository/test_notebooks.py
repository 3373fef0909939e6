"""What notebooks show: graphs as pages in a frame, tensors, modules, runs."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.graph.inline import InlinePage
from minitransformer import Transformer, TransformerConfig

NOTEBOOKS = sorted((Path(__file__).parents[2] / "demos").glob("*.ipynb"))


def texts(shown):
    """What is read, part by part; the HTML must be well-formed."""
    tree = ElementTree.fromstring(f"<div>{shown.replace('<details open>', '<details>')}</div>")
    return [text.strip() for text in tree.itertext() if text.strip()]


# ---------------------------------------------------------------- tensors


def test_tensors_are_rendered_as_tables():
    x = mg.tensor([[1.0, -2.0], [0.5, np.nan]], requires_grad=True)
    assert texts(x._repr_html_()) == (
        ["float32[2, 2] · requires a gradient", "0", "1", "0", "1.0000", "-2.0000", "1", "0.5000", "nan"]
    )
    assert texts((x * 2)._repr_html_())[0] == "float32[2, 2] · computed by multiply"
    assert len(set(re.findall(r"rgba\([^)]*\)", x._repr_html_()))) == 3  # by sign and size, not of NaN


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (mg.tensor(3.5), ["float32", "3.5000"]),
        (mg.tensor(True), ["bool", "True"]),
        (mg.arange(3), ["int64[3]", "0", "1", "2"]),
        (mg.zeros(0, 3), ["float32[0, 3]"]),
        (mg.ones(2, 1, 1), ["float32[2, 1, 1]", "[0, :, :]", "0", "0", "1.", "[1, :, :]", "0", "0", "1."]),
    ],
)
def test_tensors_of_every_kind_are_shown(x, expected):
    assert texts(x._repr_html_()) == expected


def test_large_tensors_are_abbreviated():
    shown = mg.arange(1_000_000).reshape(100, 10, 1000)._repr_html_()
    assert len(shown) < 50_000
    assert {"999", "…", "… and 97 more matrices"} <= set(texts(shown))


# ---------------------------------------------------------------- modules


def test_modules_are_rendered_as_trees_with_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    words = " ".join(texts(model._repr_html_()))
    assert words.startswith("16 parameters · 64 B Sequential 16")
    assert "Linear(in_features=3, out_features=4, bias=True) 16" in words
    assert "weight float32[4, 3]" in words


class TaggedSentence(nn.Module):
    def extra_repr(self):
        return "<b>&"


def test_user_text_is_escaped_in_html():
    assert "TaggedSentence(<b>&)" in texts(nn.Sequential(TaggedSentence())._repr_html_())


def test_repr_of_a_transformer_shows_its_sizes():
    config = TransformerConfig(
        vocab_size=20, d_model=8, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1
    )
    text = repr(Transformer(config))
    assert "(embedding): TokenEmbedding(20, 8, scale=True)" in text
    assert "(encoder_positions): SinusoidalPositions(8)" in text
    assert re.search(r"MultiHeadAttention\(\s+d_model=8, num_heads=2, num_kv_heads=2\s", text)


# ---------------------------------------------------------------- in a browser


def open_file(browser, file, **options):
    """The page, and what it complained about."""
    page = browser.new_context(**options).new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.route(re.compile("^https?:"), lambda route: route.abort())
    page.goto(file.as_uri(), wait_until="domcontentloaded")
    return page, complaints


def small_graph():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    return mg.graph.trace((x * x).sum(), {'"x" <y>': x}, title='"quoted" & </iframe>')


def test_graphs_are_rendered_as_sandboxed_pages(browser, tmp_path):
    file = tmp_path / "output.html"
    file.write_text(f"<!doctype html>{small_graph()._repr_html_()}", encoding="utf-8")
    page, complaints = open_file(browser, file)
    frame = page.frame_locator("iframe")
    frame.locator("#walk").click()
    frame.locator("#next-step").click()
    assert frame.locator("#canvas .current").count() == 1
    transform = "document.getElementById('world').style.transform"
    before = page.frames[1].evaluate(transform)
    box = page.locator("iframe").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 300)
    page.mouse.wheel(0, 100)  # scrolls the notebook
    assert page.frames[1].evaluate(transform) == before
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    assert page.locator("iframe").get_attribute("title") == '"quoted" & </iframe>'
    assert complaints == []
    page.context.close()


@pytest.mark.parametrize("without", ["frames", "scripts"])
def test_graphs_fall_back_to_a_picture(without, browser, tmp_path):
    shown = small_graph()._repr_html_()
    if without == "frames":  # GitHub removes them
        shown = re.sub(r"<iframe[\s\S]*</iframe>", "", shown)
    file = tmp_path / "output.html"
    file.write_text(f"<!doctype html>{shown}", encoding="utf-8")
    page, _ = open_file(browser, file, java_script_enabled=without != "scripts")
    if without == "frames":
        page.wait_for_load_state()
        assert page.locator("img").evaluate("image => image.complete && image.naturalWidth") > 200
    else:
        page.frame_locator("iframe").locator("#graph svg").first.wait_for()
    page.context.close()


def test_pages_without_a_picture_have_only_a_frame():
    assert "<img" not in InlinePage("<p>text</p>")._repr_html_()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
@pytest.mark.slow
def test_demo_notebooks_are_stored_with_small_outputs(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert len(text.encode()) < 300_000
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    assert shown.count("<img") >= 2  # pages are stored as their pictures at least
