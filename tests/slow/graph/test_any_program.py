"""The graph of any program can be drawn."""

import random
from xml.etree import ElementTree

import pytest

import minigrad as mg
from minigrad import nn
from minigrad.graph import named_scope
from minigrad.graph.placing import lay_out


class Odd(nn.Module):
    """A module of random parts, some of which other modules have too, in one of several ways."""

    def __init__(self, rng, depth, pool):
        super().__init__()
        self.way = rng.choice([getattr(Odd, name) for name in dir(Odd) if name.startswith("way_")])
        self.parts = nn.ModuleList([])
        for _ in range(rng.randrange(1, 4)):
            if depth and rng.random() < 0.6:
                self.parts.append(Odd(rng, depth - 1, pool))
            elif pool and rng.random() < 0.3:
                self.parts.append(rng.choice(pool))
            else:
                pool.append(nn.Linear(4, 4))
                self.parts.append(pool[-1])
        pool.append(self)

    def forward(self, x):
        y = x
        for part in self.parts:
            y = self.way(self, part, x, y)
        return y

    def way_residual(self, part, x, y):
        return (y + part(y)).tanh()

    def way_in_two_halves(self, part, x, y):
        a, b = part(y).split(2, -1)
        return mg.cat([b, a.relu()], -1)

    def way_named(self, part, x, y):
        with named_scope("inner"):
            return (part(y) * y).tanh()

    def way_twice(self, part, x, y):
        return part(part(y)).tanh()

    def way_around(self, part, x, y):
        return (part(y) * x.exp().clamp(max=3.0)).tanh()

    def way_saving(self, part, x, y):
        return mg.autograd.checkpoint(lambda t: t.sin(), part(y)) + x.tanh()


def computed(seed):
    """A graph of a random program: its loss, several results, or its gradients."""
    rng = random.Random(seed)
    mg.manual_seed(seed)
    model = Odd(rng, rng.randrange(3), [])
    x = mg.randn(2, 4, requires_grad=rng.random() < 0.5)
    y = model(x)
    y = model(y) if rng.random() < 0.3 else y
    output = (y * y).mean()
    kind = rng.randrange(3)
    if kind == 1:
        weights = list(model.parameters())
        found = mg.autograd.grad(output, weights, create_graph=True, allow_unused=True)
        output = [g for g in found if g is not None and g.requires_grad]
    elif kind == 2:
        output = [output, y]
    return mg.graph.trace(output, rng.choice([model, None, {"model": model, "x": x, "y": y}])), rng


def views(graph, rng):
    """As it comes, unfolded, folded to each depth, and with some modules open."""
    yield graph
    yield graph.expand()
    for depth in range(4):
        yield graph.fold(depth)
    paths = [group.path for group in graph.groups if group.path and not group.is_stack]
    for path in rng.sample(paths, min(3, len(paths))):
        graph = graph.expand(path)
        yield graph


@pytest.mark.parametrize("seed", range(24))
def test_every_program_can_be_drawn(seed):
    graph, rng = computed(seed)
    assert all(edge.source < v.index for v in graph.vertices for edge in v.inputs)
    assert sorted(v for group in graph.groups for v in group.vertices) == list(range(len(graph.vertices)))
    for view in views(graph, rng):
        ElementTree.fromstring(view.to_svg())
        check_frames(view)
        assert view.to_dot().count("{") == view.to_dot().count("}")


def check_frames(graph):
    """Each box is drawn once, none lies over another, and each input of an op that is shown has its arrow."""
    folding = graph.folding
    boxes = list(folding.boxes())
    frames = [lay_out(folding)]
    drawn = []
    arrows = 0
    for frame in frames:
        frames += frame.frames.values()
        arrows += sum(line.target >= 0 for line in frame.lines)
        placed = [
            (cell[:2], place)
            for row, places in zip(frame.rows, frame.places, strict=True)
            for cell, place in zip(row, places, strict=True)
            if cell[0] != "lane"
        ]
        drawn += [box for box, _ in placed]
        for i, (box, one) in enumerate(placed):
            assert within(one, (0, 0, frame.width, frame.height)), box
            assert not any(overlap(one, other) for _, other in placed[:i]), box
    assert sorted(drawn) == sorted(boxes)
    assert arrows == sum(len(graph.vertices[i].inputs) for kind, i in boxes if kind == "vertex")


def within(one, other, slack=1e-6):
    x, y, w, h = one
    left, top, width, height = other
    inside = x >= left - slack and x + w <= left + width + slack
    return inside and y >= top - slack and y + h <= top + height + slack


def overlap(one, other, slack=1e-6):
    x, y, w, h = one
    left, top, width, height = other
    beside = x + w <= left + slack or left + width <= x + slack
    return not (beside or y + h <= top + slack or top + height <= y + slack)
