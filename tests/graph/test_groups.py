"""The groups of a trace: modules, stacks, chains, and that none is in a circle."""

import random

import pytest

import minigrad as mg
from minigrad import nn
from minigrad.graph import named_scope, trace
from minigrad.graph.pruning import prune
from minigrad.nn import functional as F
from tests.core.gradients import assert_equal
from tests.graph.traces import (
    assert_no_circles,
    assert_partition,
    named,
    number,
    op,
    ops,
    small_transformer,
    sums_of_contributions,
    transformer_loss,
)

# ---------------------------------------------------------------- groups


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.slow
def test_transformer_ops_are_grouped_by_module(norm_first):
    model = small_transformer(norm_first, layers=3)
    graph = trace(transformer_loss(model), model)
    assert_partition(graph)
    assert_no_circles(graph)
    paths = {group.path: group for group in graph.groups}
    assert paths["encoder.layers.2.self_attention"].kind == "MultiHeadAttention"
    assert paths["decoder.layers.0.cross_attention"].kind == "MultiHeadAttention"
    assert paths["encoder.layers.1"].kind == "EncoderLayer"
    attentions = ops(graph, "multi_head_attention")
    assert len(attentions) == 9  # three encoder layers, and two in each of three decoder layers
    for vertex in attentions:
        assert graph.groups[vertex.group].path.endswith("attention")
    for name, parameter in named(graph).items():
        if parameter.kind == "parameter" and name.count(".") > 1:
            assert name.startswith(graph.groups[parameter.group].path)
    stacks = [group for group in graph.groups if group.is_stack and group.kind.endswith("coderLayer")]
    assert [group.times for group in stacks] == [3, 3]


class Block(nn.Module):
    def __init__(self, width, hidden=8, p=0.0):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return x + self.dropout(self.down(F.relu(self.up(x))))


class Tower(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(
    ("block", "times"),
    [
        (lambda i: Block(4, p=0.1), [6]),
        (lambda i: Block(4, hidden=9 if i == 3 else 8), [3, 2]),
        (lambda i: Block(4, p=0.2 if i == 0 else 0.1), [5]),
    ],
    ids=["equal", "another width", "another dropout"],
)
def test_only_equal_blocks_form_a_stack(block, times):
    model = Tower(*map(block, range(6)))
    graph = trace(model(mg.randn(2, 4)).sum(), model)
    assert_partition(graph)
    assert_no_circles(graph)
    assert [group.times for group in graph.groups if group.is_stack] == times


def test_separated_blocks_do_not_form_a_cycle():
    model = nn.ModuleList([Block(4) for _ in range(4)])
    x = mg.randn(2, 4)
    for block in model:
        x = block(x) * 2
    graph = trace(x.sum(), {"blocks": model})
    assert_partition(graph)
    assert_no_circles(graph)


def test_a_module_called_twice_has_two_groups():
    shared = nn.Linear(3, 3)
    model = nn.Module()
    model.shared = shared
    graph = trace(shared(shared(mg.ones(1, 3)).tanh()).sum(), model)
    calls = [group for group in graph.groups if group.path == "shared"]
    assert [call.name for call in calls] == ["shared", "shared (call 2)"]
    (weight,) = [v for v in graph.vertices if v.name == "shared.weight"]
    assert weight.group not in {call.index for call in calls}
    assert_partition(graph)
    assert_no_circles(graph)


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(6, 4)

    def forward(self, x, h):
        return self.map(mg.cat([x, h], 1)).tanh()


@pytest.mark.parametrize("between", [False, True])
def test_groups_of_a_cell_in_a_loop_have_no_cycle(between):
    cell = Cell()
    x = mg.randn(2, 10, 2)
    h = mg.zeros(2, 4, requires_grad=True)
    states = []
    for t in range(10):
        h = cell(x[:, t], h)
        h = h * 0.5 if between else h
        states.append(h)
    graph = trace(mg.stack(states).sum(), {"cell": cell})
    assert_partition(graph)
    assert_no_circles(graph)
    if not between:
        assert [g.name for g in graph.groups if g.kind == "Cell"] == [f"cell, t = {t}" for t in range(1, 11)]


@pytest.mark.slow
def test_long_chains_are_split_into_groups_of_at_most_40():
    x = number(1)
    y = x
    for _ in range(5000):
        y = y * 1.0001
    graph = trace(y, {"x": x}, check=False)
    assert len(ops(graph)) == 5000
    assert_partition(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40
    assert named(graph)["x"].gradient.numbers == pytest.approx(1.0001**5000)


def test_wide_sums_are_grouped_without_cycles():
    xs = [number(i) for i in range(150)]
    graph = trace(mg.stack([x * 2 for x in xs]).sum(), check=False)
    assert_partition(graph)
    assert_no_circles(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40


def test_named_scopes_can_be_nested_and_used_as_decorators():
    scope = named_scope("s")
    x = mg.ones(3, requires_grad=True)

    @scope
    def squared(x):
        return x * x

    with scope, scope:
        y = squared(x)
    graph = trace(y.sum())
    assert [(group.name, group.path) for group in graph.groups] == [
        ("", ""), ("s", "s"), ("s", "s.s"), ("s", "s.s.s"),
    ]  # fmt: skip
    assert graph.groups[op(graph, "multiply").group].path == "s.s.s"
    with pytest.raises(mg.MinigradError, match="a scope's name must be a string, got 3"):
        named_scope(3)


def test_groups_of_modules_in_a_cycle_are_dissolved():
    class Around(nn.Module):
        """Applied before and after something of its parent's."""

        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(2, 2)

        def forward(self, x, f):
            return self.scale(x) + f(x.tanh())

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.around = Around()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.around(x, lambda y: self.inner(y.exp()))

    model = Outer()
    graph = trace(model(mg.ones(1, 2)).sum(), model)
    assert_partition(graph)
    assert_no_circles(graph)
    assert "inner" in {group.path for group in graph.groups}


class Maze(nn.Module):
    """Modules that call each other back, twice, around each other and with operations between, at random."""

    def __init__(self, random, depth=3):
        super().__init__()
        self.inner = nn.ModuleList(
            [Maze(random, depth - 1) for _ in range(random.randint(0, 3) if depth else 0)]
        )
        self.map = nn.Linear(3, 3) if random.random() < 0.5 else None
        self.twice, self.around, self.between, self.shortcut = (random.random() < 0.3 for _ in range(4))

    def forward(self, x, callback=None):
        inner = [*self.inner, *self.inner] if self.twice else list(self.inner)
        y = x
        for module, after in zip(inner, [*inner[1:], None], strict=False):
            y = module(y, after if self.around else None)
            y = y * 2 if self.between else y
        y = y if self.map is None else self.map(y)
        y = y if callback is None else y + callback(y.tanh()) * 0.1
        return y + x if self.shortcut else y


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_random_models_have_no_cycles(seed):
    model = Maze(random.Random(seed))
    y = model(mg.ones(1, 3, requires_grad=True)) * 1
    graph = trace(y.sum(), model, check=False)
    assert_partition(graph)
    assert_no_circles(graph)
    assert max(len(g.vertices) + len(g.groups) for g in graph.groups if not g.is_stack) <= 40
    for _, gradient, total in sums_of_contributions(graph):
        assert_equal(total, gradient, 1e-4, 1e-6)
    part = prune(graph, [v.index for v in graph.vertices if v.index % 5])
    assert_partition(part)
    assert_no_circles(part)


def test_gradient_graphs_are_grouped_as_backward():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = mg.randn(4, 2, requires_grad=True)
    (first,) = mg.autograd.grad((model(x) ** 2).sum(), x, create_graph=True)
    penalty = (first**2).sum()
    graph = trace(penalty, {"model": model})
    assert_partition(graph)
    assert_no_circles(graph)
    (backward,) = [group for group in graph.groups if group.kind == "gradient"]
    assert backward.parent == 0
    paths = {g.path for g in graph.groups}
    assert {"model.2", "backward", "backward.model.2"} <= paths
    assert not any("backward.backward" in path for path in paths)
    (second,) = mg.autograd.grad(penalty, x, create_graph=True)
    paths = {g.path for g in trace((second**2).sum(), {"model": model}).groups}
    assert any(path.startswith("backward.backward") for path in paths)
    assert not any("backward.backward.backward" in path for path in paths)
    penalty.backward()
    for name, p in model.named_parameters("model"):
        if p.grad is not None:
            assert_equal(named(graph)[name].gradient.numbers, p.grad.array, 1e-6, 1e-7)
