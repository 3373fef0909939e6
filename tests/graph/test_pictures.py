"""What is drawn of a graph: which boxes, where, in which colours, and in which files.

`own` is the writer that needs no other program, and whose drawing pages have.
"""

import itertools
import random
import re
import shutil
import xml.etree.ElementTree as ET
from html import escape

import numpy as np
import pytest

import minigrad as mg
from minigrad.graph.colours import (
    BROKEN,
    BYTES,
    FAMILIES,
    FLOPS,
    GRADIENT,
    MASK,
    MASKED,
    MODES,
    NONE,
    POWERS,
    _gradient_paint,
    heat_levels,
    legend,
    paint,
)  # fmt: skip
from minigrad.graph.colours import _paint as scale_paint
from minigrad.graph.fitting import READABLE, WINDOW
from minigrad.graph.folding import ALL, Fold, Folding
from minigrad.graph.labels import kind_of, lines, number, quantity
from minigrad.graph.placing import lay_out
from minigrad.graph.svg import to_svg
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig, Transformer, TransformerConfig

SVG = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")


def transformer_graph(layers=3, **settings):
    mg.manual_seed(0)
    config = TransformerConfig(
        vocab_size=12, d_model=8, num_heads=2, d_ff=16, num_encoder_layers=layers,
        num_decoder_layers=layers, dropout=0.0, **settings,
    )  # fmt: skip
    model = Transformer(config)
    source, target = np.array([[4, 5, 6]]), np.array([[7, 8, 9, 10]])
    return mg.graph.trace(F.cross_entropy(model(source, target)[0], mg.tensor(target[0])), model, check=False)


@pytest.fixture(scope="module")
def graph():
    return transformer_graph()


def small(expression="x * x + x", **values):
    tensors = {name: mg.tensor(value, requires_grad=True) for name, value in values.items()}
    return mg.graph.trace(eval(expression, {"mg": mg}, tensors), tensors)


def own(graph, color="family"):
    return to_svg(graph.folding, color)


def texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def nodes(svg):
    return sum(element.get("class") == "node" for element in ET.fromstring(svg).iter())


def frame_of(graph):
    """The placed picture of a graph."""
    return lay_out(graph.folding)


def cells(frame, kind):
    """The place of each "vertex", or of each "group", of a frame."""
    return {
        cell[1]: place
        for row, places in zip(frame.rows, frame.places, strict=True)
        for cell, place in zip(row, places, strict=True)
        if cell[0] == kind
    }


def frames_in(frame):
    yield frame
    for inner in frame.frames.values():
        yield from frames_in(inner)


def some_folds(graph, count=12):
    """Folds with random groups open, and random members of stacks shown."""
    draw = random.Random(0)
    for _ in range(count):
        opened = {g.index for g in graph.groups if draw.random() < 0.7} | {0}
        shown = {g.index: draw.choice([ALL, *range(g.times)]) for g in graph.groups if g.is_stack}
        yield Fold(frozenset(opened), shown)


# ---------------------------------------------------------------- which boxes


@pytest.mark.slow
def test_default_folding_fits_a_screen(graph):
    mg.manual_seed(0)
    gpt = GPT(GPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=12, n_head=2))
    ids = np.array([[1, 2, 3]])
    x = mg.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(500):
        y = y * 1.01
    for each in (graph, mg.graph.trace(gpt(ids).sum(), gpt, check=False), mg.graph.trace(y)):
        frame = frame_of(each)
        assert READABLE * frame.width <= WINDOW[0] or each.folding.fold.opened == {0}
        assert READABLE * frame.height <= WINDOW[1] or each.folding.fold.opened == {0}
    opened = {graph.groups[i].name for i in graph.folding.fold.opened}
    assert {"encoder", "decoder", "layers.0 … layers.2"} <= opened
    assert not {"embedding", "encoder_positions"} & opened


def test_the_encoder_is_drawn_left_of_the_decoder(graph):
    """In one row, above what is computed from both; a line leads from one to the other."""
    for depth in (1, 2, 3):
        (outer,) = [
            f for f in frames_in(frame_of(graph.fold(depth))) if graph.groups[f.inner].name == "Transformer"
        ]
        place = {graph.groups[i].name: where for i, where in cells(outer, "group").items()}
        (x1, y1, w1, _), (x2, y2, *_) = place["encoder"], place["decoder"]
        assert x1 + w1 < x2
        assert y1 == y2
        (side,) = [line for line in outer.lines if line.side is not None]
        assert x1 < side.x1 < x1 + w1 < side.side < x2 < side.x2


def test_consecutive_blocks_are_drawn_below_each_other():
    """A tower after a tower, without an input of its own, is no neighbour."""
    mg.manual_seed(0)
    block = lambda: mg.nn.Sequential(mg.nn.Sequential(mg.nn.Linear(2, 2), mg.nn.ReLU()), mg.nn.Linear(2, 2))
    model = mg.nn.Sequential(block(), block())
    graph = mg.graph.trace(model(mg.randn(1, 2)).sum(), model)
    assert not any(graph.folding.arrangements[g.index].sides for g in graph.groups)


def test_x_times_x_has_two_edges():
    graph = small(x=3.0)
    between = [e for e in graph.folding.edges() if e[:2] == (("vertex", 0), ("vertex", 1))]
    assert [place for _, _, place, _ in between] == [0, 1]
    assert graph.to_dot().count("v0 -> v1\n") == 2
    ends = [(line.x2, line.target) for line in frame_of(graph).lines if line.target == 1]
    assert len(ends) == len(set(ends)) == 2  # and they arrive at two places


def test_a_value_that_is_used_twice_shows_its_gradient_as_a_sum():
    assert lines(small(x=3.0), ("vertex", 0)) == ["x", "value 3", "gradient 7 = 3 + 3 + 1"]
    assert "gradient 1 = 2 − 1" in lines(small("x * 2 - x", x=3.0), ("vertex", 0))


def test_fold_opens_groups_down_to_a_depth(graph):
    assert [graph.groups[i].name for kind, i in graph.fold(0).folding.boxes() if kind == "group"] == [
        "Transformer"
    ]
    assert not any(kind == "vertex" and graph.vertices[i].group for kind, i in graph.fold(0).folding.boxes())
    names = {graph.groups[i].name for kind, i in graph.fold(1).folding.boxes() if kind == "group"}
    assert {"encoder", "decoder", "embedding"} <= names
    assert "self_attention" not in names
    counts = [graph.fold(depth).folding.count for depth in range(7)]
    assert counts == sorted(counts)
    assert counts[0] < counts[3]
    with pytest.raises(mg.OptionError, match="non-negative integer, got -1"):
        graph.fold(-1)


def test_identical_blocks_are_drawn_once_until_expanded(graph):
    stack = next(g for g in graph.groups if g.is_stack and g.kind == "EncoderLayer")
    assert stack.times == 3
    assert stack.name == "layers.0 … layers.2"
    shown = {graph.groups[i].path for kind, i in graph.folding.boxes() if kind == "group"}
    assert "encoder.layers.0.self_attention" in shown
    assert "encoder.layers.1.self_attention" not in shown
    assert "×3" in graph.to_svg()
    every = graph.expand()
    assert every.folding.count == len(graph.vertices) + len(graph.groups) - 1


def test_expand_opens_one_module_of_a_stack(graph):
    one = graph.fold(0).expand("encoder.layers.2.feed_forward")
    shown = {graph.groups[i].path for kind, i in one.folding.boxes() if kind == "group"}
    assert "encoder.layers.2.feed_forward" in shown
    assert "encoder.layers.0.feed_forward" not in shown
    names = {graph.vertices[i].name for kind, i in one.folding.boxes() if kind == "vertex"}
    assert "encoder.layers.2.feed_forward.linear1.weight" not in names  # not what is in its own modules
    assert "relu" in names
    assert graph.fold(0).folding.count < one.folding.count  # the first is as it was
    with pytest.raises(mg.OptionError, match=r"no module 'encoder.layers.9'.\nIts modules: "):
        graph.expand("encoder.layers.9")


def test_every_vertex_has_one_box_and_edges_connect_boxes(graph):
    for fold in some_folds(graph):
        folding = Folding(graph, fold)
        boxes = list(folding.boxes())
        assert len(boxes) == len(set(boxes))
        closed = {b for b in boxes if b[0] == "vertex" or not folding.is_open(b[1])}
        assert all(folding.visible(v.index)[0] in closed for v in graph.vertices)
        edges = folding.edges()
        assert len(edges) == len(set(edges))
        assert all(above in closed and below in closed and above != below for above, below, *_ in edges)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_recurrent_network_folds_by_time(kind):
    mg.manual_seed(0)
    model = getattr(mg.nn, kind)(2, 3)
    with mg.fused(False):
        graph = mg.graph.trace(model(mg.randn(4, 1, 2))[0].sum(), model)
    names = [g.name for g in graph.groups if " = " in g.name]
    assert names == ["t = 1", "t = 2", "t = 3", "t = 4"]
    assert not any(g.name.startswith("steps") for g in graph.groups)


def test_hidden_members_are_represented_by_the_shown_one(graph):
    """Whatever is in a member that is not shown is shown by its like in the one that is."""
    folding = graph.expand("encoder.layers.1.residual1").folding
    name = lambda path: next(v for v in graph.vertices if v.name == path)
    weight = name("encoder.layers.0.residual1.norm.weight")
    box, like = folding.visible(weight.index)
    assert graph.vertices[like].name == "encoder.layers.1.residual1.norm.weight"
    assert box[0] == "group"
    assert graph.groups[box[1]].path == "encoder.layers.1.residual1.norm"


# ---------------------------------------------------------------- where


def test_boxes_stay_within_their_frame_and_do_not_overlap(graph):
    for fold in (graph.folding.fold, *some_folds(graph)):
        for frame in frames_in(frame_of(mg.graph.graph.replace(graph, folded=fold))):
            places = [p for row in frame.places for p in row if p[2]]
            for x, y, w, h in places:
                assert x >= -1e-6
                assert y >= -1e-6
                assert x + w <= frame.width + 1e-6
                assert y + h <= frame.height + 1e-6
            for (x1, y1, w1, h1), (x2, y2, w2, h2) in itertools.combinations(places, 2):
                assert (
                    x1 + w1 <= x2 + 1e-6
                    or x2 + w2 <= x1 + 1e-6
                    or y1 + h1 <= y2 + 1e-6
                    or y2 + h2 <= y1 + 1e-6
                )


def test_edges_are_drawn_downward_without_gaps(graph):
    """Each input of each op can be followed up, piece by piece, to the box of what made it."""
    whole = graph.expand()
    followed = 0
    for frame in frames_in(frame_of(whole)):
        starts = {}
        for line in frame.lines:
            assert line.side is not None or line.y2 > line.y1 - 1e-6
            starts.setdefault((line.tensor, round(line.x2, 3), round(line.y2, 3)), []).append(line)
        rects = cells(frame, "vertex")
        for line in frame.lines:
            if line.target < 0:
                continue
            followed += 1
            x, y, w, _ = rects[line.target]
            assert line.y2 == pytest.approx(y)
            assert x < line.x2 < x + w
            edge = graph.vertices[line.target].inputs[line.place]
            assert line.tensor == (edge.source, edge.result)
            while line.y1 > 1e-6 and not _leaves(line, frame, rects):
                line = starts[line.tensor, round(line.x1, 3), round(line.y1, 3)][0]
    assert followed == sum(len(v.inputs) for v in graph.vertices)


def _leaves(line, frame, rects):
    """Whether a line begins at the lower edge of the vertex, or of the group, that it comes from."""
    if line.tensor[0] in rects:
        x, y, w, h = rects[line.tensor[0]]
        return abs(line.y1 - (y + h)) < 1e-6 and x < line.x1 < x + w
    groups = cells(frame, "group").values()
    return any(abs(line.y1 - (y + h)) < 1e-6 and x <= line.x1 <= x + w for x, y, w, h in groups)


def test_the_same_graph_gives_the_same_picture():
    assert own(transformer_graph(2)) == own(transformer_graph(2))
    assert transformer_graph(2).to_dot() == transformer_graph(2).to_dot()


# ---------------------------------------------------------------- how it looks


@pytest.mark.parametrize("color", MODES)
def test_svg_contains_the_text_of_every_box(graph, color):
    svg = own(graph, color)
    for said in (texts(svg), *([texts(graph.to_svg(color))] if shutil.which("dot") else [])):
        for box in graph.folding.boxes():
            if box[0] == "vertex" or not graph.folding.is_open(box[1]):
                assert set(lines(graph, box, color)) <= set(said)
        assert any(text.startswith("float32[1, 4, ") for text in said if text)
    assert not ET.fromstring(svg).findall(f".//{SVG}script")
    assert "style=" not in svg


def test_colours_have_marks_and_readable_text():
    scales = {
        "gradient": [p for _, p in GRADIENT],
        "bytes": [scale_paint(i, BYTES, "B") for i in range(6)],
        "flops": [scale_paint(i, FLOPS, "") for i in range(6)],
    }
    for paints in scales.values():
        marks = [p.mark for p in (*paints, BROKEN)]
        assert all(marks)
        assert len(set(marks)) == len(marks)
    for each in (*FAMILIES.values(), *itertools.chain(*scales.values()), NONE, BROKEN):
        assert _contrast(each.stroke, each.fill) >= 4.5, each
        assert _contrast("#1b2733", each.fill) >= 4.5, each


def _contrast(a, b):
    """WCAG 2.2's contrast ratio."""
    light = []
    for colour in (a, b):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_gradients_are_coloured_from_vanishing_to_exploding():
    graph = small("1e-8 * x + 1e4 * y + 0 * z", x=3.0, y=2.0, z=1.0)
    meaning = {
        v.name: paint(graph, ("vertex", v.index), "gradient").meaning
        for v in graph.vertices
        if v.name in "xyz"
    }
    assert meaning == {
        "x": "1e-9 to 1e-6: vanishing", "y": "1000 and more: exploded", "z": "below 1e-9: vanished",
    }  # fmt: skip
    first = legend(graph, [("vertex", v.index) for v in graph.vertices], "gradient")[0]
    assert first.meaning == "below 1e-9: vanished"
    with pytest.raises(
        mg.OptionError, match="color must be one of family, gradient, bytes, flops, got 'age'"
    ):
        graph.to_svg("age")


def test_nan_is_hatched_and_named():
    with np.errstate(all="ignore"):
        graph = small("(x.log() * x).sum()", x=[0.0, 1.0])
    looks = {
        graph.vertices[i].name: paint(graph, ("vertex", i), "family") for i in range(len(graph.vertices))
    }
    assert looks["log"] is BROKEN
    assert looks["x"] is not BROKEN
    text = own(graph)
    assert text.count('fill="url(#hatch)"') == 4  # log, multiply, sum, and the legend
    assert graph.to_dot().count("style=striped") == 3
    assert "NaN/∞" in text
    assert "1 infinite" in text


def test_svg_size_fits_its_content(graph):
    svg = own(graph)
    frame = frame_of(graph)
    x, y = map(float, re.search(r"translate\(([\d.]+) ([\d.]+)\)", svg).groups())
    root = ET.fromstring(svg)
    assert x + frame.width <= float(root.get("width"))
    assert y + frame.height <= float(root.get("height"))


def test_heat_maps_have_a_cell_for_each_nonzero_number():
    graph = small("(x * x).sum()", x=[[4.0, -2.0], [0.0, 1.0]])
    value, gradient = graph.heat_maps(("vertex", 0))
    np.testing.assert_array_equal(value.sample, [[4, -2], [0, 1]])
    np.testing.assert_array_equal(gradient.sample, [[8, -4], [0, 2]])
    assert graph.heat_maps(("vertex", 2)) == (None, None)  # one number is text
    paths = re.findall(r'<path d="((?:M[\d.]+ [\d.]+h[^z]*z)+)" fill="(.*?)"/>', own(graph))
    assert sum(path.count("M") for path, _ in paths) == 13  # x and its square, with their gradients
    assert BROKEN.stroke not in [fill for _, fill in paths]


def test_plain_numbers_are_shown_in_the_box_of_their_op():
    """Before, `(x - 1) ** 2` and `(x - 3) ** 4` had the same boxes."""
    graph = small("((x - 1) ** 2 / 8 + 1 / x + x ** -1 + x ** 0.5 + 2 ** x).sum()", x=[1.0, 2.0])
    titles = {lines(graph, ("vertex", v.index))[0] for v in graph.vertices}
    assert {
        "subtract − 1", "power x²", "divide ÷ 8", "divide 1 ÷", "power x⁻¹", "power x^0.5", "power 2ʸ",
    } <= titles  # fmt: skip


def test_token_ids_are_text_and_masks_are_grey():
    weight = mg.tensor(np.ones((3, 2)), requires_grad=True)
    ids, mask = mg.tensor([[2, 0]]), mg.tensor([[True], [False]])
    loss = F.embedding(ids, weight)[0].masked_fill(mask, 0.0).sum()
    texts = lambda graph: [v.words for v in graph.vertices if v.value.dtype == "int64"]
    assert texts(mg.graph.trace(loss, words=["I", "love", "you"])) == ["you I"]
    assert texts(mg.graph.trace(loss, words=list("IVXL"))) == texts(mg.graph.trace(loss)) == ["2 0"]
    graph = mg.graph.trace(loss, words=["I", "love", "you"])
    number = {v.value.dtype: v.index for v in graph.vertices}
    assert lines(graph, ("vertex", number["int64"]))[1:] == ["int64[1, 2]", "you I"]
    assert graph.heat_maps(("vertex", number["int64"])) == (None, None)
    assert heat_levels(graph.heat_maps(("vertex", number["bool"]))[0].sample).tolist() == [[MASKED], [0]]
    for picture in (own(graph), graph.to_dot()):
        assert MASK in picture


def test_fills_of_gradients_change_continuously():
    graph = small("x + 3 * y + 9 * z", x=3.0, y=2.0, z=1.0)
    looks = [paint(graph, ("vertex", v.index), "gradient") for v in graph.vertices if v.name in "xyz"]
    assert len({look.fill for look in looks}) == 3
    assert {look.meaning for look in looks} == {"0.1 to 10"}
    sizes = [10.0**power for power in range(-12, 7)]
    for look in map(_gradient_paint, sizes):
        assert _contrast(look.stroke, look.fill) >= 4.5, look
    for power, (_, step) in zip(POWERS, GRADIENT, strict=True):
        assert _gradient_paint(10.0**power).fill == step.fill


def test_groups_show_sums_and_the_largest_gradient(graph):
    box = next(("group", g.index) for g in graph.groups if g.path == "encoder.layers.0.feed_forward")
    inside = [graph.vertices[v] for v in graph.contents[box[1]]]
    total = sum(s.nbytes for v in inside for s in v.values)
    assert lines(graph, box, "bytes")[-1] == quantity(total, "B")
    assert lines(graph, box, "flops")[-1] == f"{quantity(sum(v.flops or 0 for v in inside))} FLOPs"
    norm = max(v.gradient.statistics.norm for v in inside if v.gradient)
    assert lines(graph, box, "gradient")[-1] == f"gradient norm {norm:.2g}"
    assert lines(graph, box)[1:] == ["FeedForward"]


def test_formatting_of_numbers_and_quantities():
    assert [number(x) for x in (2.0, 1 / 3, 1e-9)] == ["2", "0.333", "1e-09"]
    assert [quantity(n) for n in (0, 999, 1000, 63_082_496)] == ["0", "999", "1 k", "63.1 M"]
    assert [quantity(n, "B") for n in (12, 1024, 3 * 2**20)] == ["12 B", "1 KiB", "3 MiB"]
    assert kind_of(small(x=[1.0, 2.0]).vertices[0].value) == "float32[2]"


def test_the_dot_text_has_the_title_and_the_legend():
    graph = small(x=[1.0, 2.0])
    for color in ("family", "gradient", "bytes", "flops"):
        text = graph.to_dot(color)
        closed = [box for box in graph.folding.boxes() if box[0] == "vertex"]
        for entry in legend(graph, closed, color):
            assert f'BGCOLOR="{entry.fill}"' in text
            assert escape(entry.meaning) in text
    assert "Computation graph" in text


HOSTILE = [
    "</script><script>alert(1)</script>", '"; label=x', "a\\b\nc", "&amp; <b> é ×", "</TABLE>", "x\0y", "\\",
    "<b>", ">", "\x0b\x1b[1m\udc80\u202e", "]]>",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name, tmp_path):
    x = mg.tensor(2.0, requires_grad=True)
    graph = mg.graph.trace(x * x, {name: x}, title=name)
    for suffix in ("html", "dot"):
        graph.save(tmp_path / f"graph.{suffix}")
    shown = re.sub(r"[\0\x0b\x1b\udc80\u202e]", "\ufffd", name)
    words = lambda text: " ".join((text or "").split())
    svg = own(graph)
    assert words(shown) in map(words, texts(svg))
    assert not ET.fromstring(svg).findall(f".//{SVG}script")
    if shutil.which("dot"):
        svg = graph.to_svg()
        assert words(shown).replace(" ", "") in [words(text).replace(" ", "") for text in texts(svg)]
        tips = [e.get("{http://www.w3.org/1999/xlink}title") or "" for e in ET.fromstring(svg).iter()]
        assert any(words(tip).startswith(words(shown)) for tip in tips)
        assert nodes(svg) == 2


# ---------------------------------------------------------------- Graphviz


def test_graphviz_draws_heat_maps_of_few_boxes(graph):
    assert graph.to_graphviz().source == graph.to_dot()
    cells = small("(x * x).sum()", x=[[4.0, -2.0], [0.0, 1.0]]).to_dot()
    assert cells.count("<TD WIDTH=") >= 8  # those of x and of its square
    assert "<TD WIDTH=" in graph.fold(1).to_dot()
    assert "<TD WIDTH=" not in graph.expand().to_dot()


@needs_dot
def test_drawings_can_be_vertical_or_horizontal():
    graph = small("x.exp().log().exp()", x=3.0)
    wide = lambda svg: (
        float(ET.fromstring(svg).get("width")[:-2]) > float(ET.fromstring(svg).get("height")[:-2])
    )
    assert wide(graph.to_svg(across=True))
    assert not wide(graph.to_svg())
    assert "rankdir=LR" in graph.to_dot(across=True)
    assert nodes(graph.to_graphviz()._repr_mimebundle_()["image/svg+xml"]) == 4  # as in a notebook


@needs_dot
def test_graphviz_draws_the_encoder_left_of_the_decoder(graph):
    """And the line from one to the other leads sideways."""
    root = ET.fromstring(graph.to_svg())
    left = {}
    for cluster in (e for e in root.iter() if e.get("class") == "cluster"):
        name = cluster.findtext(f".//{SVG}text")
        numbers = list(map(float, re.findall(r"-?[\d.]+", cluster.find(f".//{SVG}path").get("d"))))
        left[name] = min(numbers[::2]), max(numbers[::2]), min(numbers[1::2])
    assert left["encoder"][1] < left["decoder"][0]
    assert left["encoder"][2] == pytest.approx(left["decoder"][2], abs=80)
    assert graph.to_dot().count("constraint=false") == 1


def test_without_graphviz_an_svg_needs_no_program(graph, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("minigrad.graph.drawing.sysconfig.get_path", lambda name: str(tmp_path))
    graph.save(tmp_path / "x.svg", across=True)
    assert (tmp_path / "x.svg").read_text(encoding="utf-8") == own(graph) == graph.to_svg()
    assert own(graph) in graph.to_html()
    graph.save(tmp_path / "x.dot")
    for name in ("x.png", "x.pdf"):
        with pytest.raises(
            mg.OptionError, match=r"program dot was not found\.\n.*apt install graphviz.*need nothing"
        ):
            graph.save(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_graphviz_pure_is_used_without_dot(tmp_path, monkeypatch):
    program = tmp_path / "graphviz-pure"
    program.write_text('#!/bin/sh\necho "drawn with $2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("minigrad.graph.drawing.sysconfig.get_path", lambda name: str(tmp_path))
    graph = small(x=3.0)
    assert graph.to_svg() == "drawn with -Tsvg\n"
    graph.save(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_text() == "drawn with -Tpng\n"
    assert graph.to_graphviz().pipe("svg") == b"drawn with -Tsvg\n"
    with pytest.raises(mg.OptionError, match="a PDF is drawn by Graphviz"):
        graph.save(tmp_path / "x.pdf")


# ---------------------------------------------------------------- files


def test_the_suffix_determines_the_file_format(graph, tmp_path):
    graph.save(tmp_path / "x.svg", color="bytes")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8") == graph.to_svg("bytes")
    graph.save(str(tmp_path / "deep" / "x.dot"))
    assert (tmp_path / "deep" / "x.dot").read_text(encoding="utf-8") == graph.to_dot()
    graph.save(tmp_path / "x.html", color="gradient")
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == graph.to_html("gradient")
    with pytest.raises(mg.OptionError, match=r"saved as .svg, .html, .dot, .gv, .png, .pdf, got 'x.jpg'"):
        graph.save(tmp_path / "x.jpg")
    assert graph._repr_svg_() == graph.to_svg()  # a notebook shows it


@needs_dot
def test_png_and_pdf_are_drawn_by_graphviz(graph, tmp_path):
    """A PNG has two pixels for each point of the SVG."""
    from matplotlib.image import imread

    graph = graph.fold(1)
    graph.save(tmp_path / "x.png")
    root = ET.fromstring(graph.to_svg())
    size = [2 * float(root.get(name)[:-2]) for name in ("height", "width")]
    assert list(imread(tmp_path / "x.png").shape[:2]) == [pytest.approx(n, abs=3) for n in size]
    graph.save(tmp_path / "x.pdf")
    assert (tmp_path / "x.pdf").read_bytes()[:5] == b"%PDF-"


def test_dot_contains_every_box_and_edge(graph):
    text = graph.to_dot()
    for kind, i in graph.folding.boxes():
        opened = kind == "group" and graph.folding.is_open(i)
        assert re.search(rf"subgraph cluster_{i} " if opened else rf"\b{kind[0]}{i} \[label", text)
    assert text.count(" -> ") == len(graph.folding.edges())


def test_a_hooked_gradient_is_not_shown_as_a_sum():
    o, y, z = (mg.tensor(v, requires_grad=True) for v in (1.0, 5.0, 7.0))
    total = o * 1
    graph = mg.graph.trace([total, total * y, total * z], {"o": total})
    assert "gradient 13" in lines(graph, ("vertex", next(v.index for v in graph.vertices if v.label == "o")))
    x = mg.tensor(2.0, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    assert "gradient 50" in lines(mg.graph.trace(x * x + x), ("vertex", 0))


def test_results_of_different_shapes_are_each_named():
    x = mg.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    values, vectors = mg.linalg.eigh(x)
    graph = mg.graph.trace(values.sum() + vectors.sum(), {"x": x})
    op = next(v for v in graph.vertices if len(v.values) == 2)
    assert lines(graph, ("vertex", op.index))[:2] == ["eigh", "float32[2], float32[2, 2]"]


def test_long_names_are_shortened():
    x = mg.tensor(2.0, requires_grad=True)
    assert len(lines(mg.graph.trace(x * x, {"a" * 300: x}), ("vertex", 0))[0]) < 50


@pytest.mark.parametrize(
    "wrong",
    [
        lambda g, x: g.fold("2"),
        lambda g, x: g.fold(1.5),
        lambda g, x: g.to_svg(["family"]),
        lambda g, x: g.to_graphviz("age"),
        lambda g, x: g.save(None),
        lambda g, x: g.save("x\0.svg"),
        lambda g, x: mg.graph.trace(x * x, whole="a"),
        lambda g, x: mg.graph.trace(x * x, whole=-1),
        lambda g, x: mg.graph.trace(x * x, check="x"),
        lambda g, x: mg.graph.trace(x * x, title=3),
        lambda g, x: mg.graph.trace(x * x, {"a": {"b": x}, "a.b": x * 1}),
    ],
)
def test_wrong_options_are_explained(wrong):
    x = mg.tensor(2.0, requires_grad=True)
    with pytest.raises(mg.OptionError, match=r"got |two tensors"):
        wrong(mg.graph.trace(x * x), x)
