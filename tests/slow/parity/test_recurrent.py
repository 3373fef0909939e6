"""RNN, LSTM and GRU against PyTorch's: outputs, states and every gradient, in float64."""

import itertools

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

KINDS = ["RNN", "LSTM", "GRU"]
LENGTHS = [2, 5, 1]  # the lengths of a packed batch's rows
# bias, batch first, a state to begin with: every two of them in all four ways
OPTIONS = [(True, False, False), (True, True, True), (False, True, False), (False, False, True)]
GRID = [(*size, *options) for size in itertools.product([1, 2, 3], [False, True]) for options in OPTIONS]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def pair(kind, *sizes, **settings):
    """Ours and theirs, with the same weights."""
    theirs = getattr(torch.nn, kind)(*sizes, **settings, dtype=torch.float64)
    ours = getattr(mg.nn, kind)(*sizes, **settings, dtype="float64")
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    ours.load_state_dict({name: mg.tensor(p.detach().numpy()) for name, p in theirs.named_parameters()})
    return ours, theirs


def flat(result):
    return [part for each in result for part in flat(each)] if isinstance(result, tuple) else [result]


def run(library, module, x, state, call):
    """What a call gives, and the gradients of a sum of it: of x, of the first state, of the weights."""
    leaves = [library.tensor(a, requires_grad=True) for a in (x, *state)]
    hx = tuple(leaves[1:]) if len(state) == 2 else leaves[1] if state else None
    results = flat(call(library, module, leaves[0], hx))
    floating = [r for r in results if r.dtype == leaves[0].dtype]
    total = sum((r * library.tensor(numbers(*r.shape, seed=i))).sum() for i, r in enumerate(floating))
    total.backward()
    leaves += list(module.parameters())
    return [np.asarray(a.detach()) for a in results] + [np.asarray(leaf.grad) for leaf in leaves]


def assert_same(kind, sizes, settings, x, state, call):
    ours, theirs = pair(kind, *sizes, **settings)
    found = run(mg, ours, x, state, call)
    expected = run(torch, theirs, x, state, call)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def plainly(library, module, x, hx):
    return module(x, hx)


def packed(library, module, x, hx):
    rnn = library.nn.utils.rnn
    batch = rnn.pack_padded_sequence(x, library.tensor(LENGTHS), module.batch_first, enforce_sorted=False)
    output, state = module(batch, hx)
    return *rnn.pad_packed_sequence(output, module.batch_first, -1.0, total_length=7), state


@pytest.mark.parametrize(("layers", "bidirectional", "bias", "batch_first", "with_state"), GRID)
@pytest.mark.parametrize("kind", [*KINDS, "relu"])
def test_layers_agree(kind, layers, bidirectional, bias, batch_first, with_state):
    settings = {
        "num_layers": layers,
        "bidirectional": bidirectional,
        "bias": bias,
        "batch_first": batch_first,
    }
    if kind == "relu":
        kind = "RNN"
        settings["nonlinearity"] = "relu"
    x = numbers(3, 5, 4) if batch_first else numbers(5, 3, 4)
    count = layers * (1 + bidirectional)
    state = [numbers(count, 3, 2, seed=i) for i in range(1 + (kind == "LSTM"))] if with_state else []
    for call in (plainly, packed):
        assert_same(kind, (4, 2), settings, x, state, call)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_without_a_batch_agrees(kind):
    state = [numbers(4, 2, seed=i) for i in range(1 + (kind == "LSTM"))]
    for settings in ({"batch_first": True}, {}):
        settings |= {"num_layers": 2, "bidirectional": True}
        assert_same(kind, (4, 2), settings, numbers(5, 4), state, plainly)
        assert_same(kind, (4, 2), settings, numbers(5, 4), [], plainly)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("lead", [(3,), ()])
def test_cells_agree(kind, lead):
    state = [numbers(*lead, 2, seed=i) for i in range(1 + (kind == "LSTMCell"))]
    for bias in (True, False):
        assert_same(kind, (4, 2), {"bias": bias}, numbers(*lead, 4), state, plainly)
        assert_same(kind, (4, 2), {"bias": bias}, numbers(*lead, 4), [], plainly)


def test_packed_sequence_fields_match_pytorch():
    for lengths, is_sorted in (([4, 2, 2], True), ([2, 4, 1, 2], False)):
        x = numbers(5, len(lengths), 3)
        theirs = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), lengths, enforce_sorted=is_sorted)
        ours = mg.nn.utils.rnn.pack_padded_sequence(mg.tensor(x), lengths, enforce_sorted=is_sorted)
        again = mg.nn.utils.rnn.PackedSequence(*ours)
        assert (ours[3] is None) == is_sorted
        for packed in (ours, again):
            np.testing.assert_array_equal(packed.batch_sizes, theirs.batch_sizes)
            padded, counts = mg.nn.utils.rnn.pad_packed_sequence(packed)
            np.testing.assert_array_equal(padded, torch.nn.utils.rnn.pad_packed_sequence(theirs)[0])
            np.testing.assert_array_equal(counts, lengths)
        if is_sorted:
            np.testing.assert_array_equal(ours.data, theirs.data)
        else:  # rows of one length may be in either order
            np.testing.assert_array_equal(
                np.sort(ours.data.numpy().ravel()), np.sort(theirs.data.numpy().ravel())
            )
        assert str(ours).startswith("PackedSequence(data=tensor(")


def test_sequences_are_packed_and_unpacked():
    arrays = [numbers(n, 2, seed=n) for n in (4, 1, 3)]
    for library in (mg, torch):
        packed = library.nn.utils.rnn.pack_sequence([library.tensor(a) for a in arrays], enforce_sorted=False)
        for part, array in zip(library.nn.utils.rnn.unpack_sequence(packed), arrays, strict=True):
            np.testing.assert_array_equal(part, array)


CALLS = [
    lambda t: t.nn.LSTM(0, 5),
    lambda t: t.nn.LSTM(4, 5, num_layers=0),
    lambda t: t.nn.LSTM(4, 5, dropout=2.0),
    lambda t: t.nn.RNN(4, 5, 1, "sigmoid"),
    lambda t: t.nn.LSTM(4, 5)(t.ones(3, 2, 3)),
    lambda t: t.nn.LSTM(4, 5)(t.ones(4)),
    lambda t: t.nn.GRU(4, 5)(t.ones(0, 2, 4)),
    lambda t: t.nn.LSTM(4, 5)(t.ones(3, 2, 4), t.zeros(1, 2, 5)),
    lambda t: t.nn.LSTM(4, 5)(t.ones(3, 2, 4), (t.zeros(1, 3, 5), t.zeros(1, 2, 5))),
    lambda t: t.nn.GRU(4, 5)(t.ones(3, 2, 4), t.zeros(2, 5)),
    lambda t: t.nn.GRU(4, 5)(t.ones(3, 2, 4).double()),
    lambda t: t.nn.LSTMCell(4, 5)(t.ones(2, 3)),
    lambda t: t.nn.GRUCell(4, 5)(t.ones(2, 4), t.zeros(3, 5)),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 4), [1, 3]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 4), [3, 0]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 4), [3]),
    lambda t: t.nn.utils.rnn.pad_packed_sequence(
        t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 4), [2, 1]), total_length=1
    ),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_bad_calls_are_rejected_as_in_pytorch(number):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
        CALLS[number](torch)
    with pytest.raises(
        (mg.MinigradError, *[e for e in (RuntimeError, ValueError) if theirs.type is e])
    ) as ours:
        CALLS[number](mg)
    assert "\n" in str(ours.value)


@pytest.mark.parametrize("kind", [*KINDS, "LSTMCell"])
def test_repr_matches_pytorch(kind):
    for settings in ({}, {"bias": False}):
        if "Cell" not in kind and settings:
            settings |= {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.1}
        ours, theirs = pair(kind, 4, 2, **settings)
        assert str(ours) == str(theirs)
