"""What tests of traces share: leaves, small models, and what every graph must satisfy."""

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import Transformer, TransformerConfig
from tests.core.gradients import assert_equal

RTOL = 1e-6


def number(x):
    return mg.tensor(np.float64(x), requires_grad=True)


def ops(graph, name=None):
    return [v for v in graph.vertices if v.kind == "op" and name in (None, v.name)]


def op(graph, name):
    (found,) = ops(graph, name)
    return found


def named(graph):
    return {v.name: v for v in graph.vertices if v.name and v.kind != "op"}


def assert_snapshot(snapshot, array, rtol=RTOL):
    """The statistics are NumPy's of `array`, in float64; so are the numbers that are kept."""
    x = np.asarray(array, dtype=np.float64)
    assert (snapshot.shape, snapshot.dtype, snapshot.nbytes) == (array.shape, str(array.dtype), array.nbytes)
    s = snapshot.statistics
    expected = [x.min(), x.mean(), x.max(), x.std(), np.sqrt((x * x).sum())]
    assert_equal([s.min, s.mean, s.max, s.std, s.norm], expected, rtol, rtol)
    if snapshot.whole:
        assert_equal(snapshot.numbers, array, 0, 0)


def small_transformer(norm_first=False, layers=2, **settings):
    mg.manual_seed(1)
    return Transformer(
        TransformerConfig(
            vocab_size=12, d_model=8, num_heads=2, d_ff=16, num_encoder_layers=layers,
            num_decoder_layers=layers, norm_first=norm_first, **settings,
        )
    )  # fmt: skip


def transformer_loss(model):
    rng = np.random.default_rng(0)
    source, target = (mg.tensor(rng.integers(3, 12, (2, n))) for n in (5, 4))
    logits = model(source, target)
    return F.cross_entropy(logits.reshape(-1, 12), mg.tensor(rng.integers(3, 12, 8)))


def assert_partition(graph):
    """Each vertex stands in exactly one group, and each group but the first in its parent."""
    homes = [v for group in graph.groups for v in group.vertices]
    assert sorted(homes) == list(range(len(graph.vertices)))
    for group in graph.groups:
        assert all(graph.vertices[v].group == group.index for v in group.vertices)
        assert all(graph.groups[child].parent == group.index for child in group.groups)
        assert group.times == (len(group.groups) if group.is_stack else 1)
    children = [child for group in graph.groups for child in group.groups]
    assert sorted(children) == list(range(1, len(graph.groups)))


def chain(graph, group):
    found = [group]
    while graph.groups[found[-1]].parent is not None:
        found.append(graph.groups[found[-1]].parent)
    return found[::-1]


def assert_no_circles(graph):
    """The items of each group can be ordered so that each comes after what it is made from."""
    after = {group.index: {} for group in graph.groups}
    for vertex in graph.vertices:
        for edge in vertex.inputs:
            a = [*chain(graph, graph.vertices[edge.source].group), ("vertex", edge.source)]
            b = [*chain(graph, vertex.group), ("vertex", vertex.index)]
            n = next(i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p != q)
            after[a[n - 1]].setdefault(a[n], set()).add(b[n])
    for group, edges in after.items():
        if graph.groups[group].is_stack:
            continue
        waiting = {item for targets in edges.values() for item in targets}
        everything = set(edges) | waiting
        while everything:
            free = {i for i in everything if not any(i in edges.get(j, ()) for j in everything)}
            assert free, f"a circle in {graph.groups[group]}"
            everything -= free


def sums_of_contributions(graph):
    """For each vertex with a gradient: (it, the sum of what its consumers' edges add)."""
    for vertex in graph.vertices:
        for result, gradient in enumerate(vertex.gradients):
            sent = [
                graph.vertices[user].inputs[place].gradient
                for user, place in graph.consumers[vertex.index]
                if graph.vertices[user].inputs[place].result == result
            ]
            sent = [s.numbers for s in sent if s is not None]
            if gradient is not None and sent and not vertex.is_output:
                yield vertex, gradient.numbers, sum(sent[1:], sent[0])
