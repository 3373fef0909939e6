"""Recurrent networks: what padding, direction, layers and chunks of time change, and what they do not."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.backward import nodes_behind
from minigrad.core.registry import ops
from minigrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
KIND = pytest.mark.parametrize("kind", KINDS)
FORM = pytest.mark.parametrize("fused", [True, False])


def draw(*shape, seed=0):
    return mg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def parts(state):
    """h, or h and c."""
    return state if isinstance(state, tuple) else (state,)


def close(a, b):
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


@KIND
@FORM
def test_packed_batches_match_single_sequences(kind, fused):
    """In both directions and all layers; and what is behind its end has no gradient."""
    model = kind(3, 2, num_layers=2, bidirectional=True, dtype="float64")
    x = draw(4, 3, 3)
    lengths = [2, 4, 1]
    with mg.fused(fused):
        packed, state = model(pack_padded_sequence(x, lengths, enforce_sorted=False))
        output, counts = pad_packed_sequence(packed)
        output.sum().backward()
        assert counts.tolist() == lengths
        for row, length in enumerate(lengths):
            alone, own = model(x.detach()[:length, row])
            close(output[:length, row], alone)
            for whole, part in zip(parts(state), parts(own), strict=True):
                close(whole[:, row], part)
            assert (output[length:, row].numpy() == 0).all()
            assert (x.grad[length:, row].numpy() == 0).all()
            assert (x.grad[:length, row].numpy() != 0).all()


@KIND
def test_the_reverse_direction_matches_a_reversed_sequence(kind):
    both = kind(3, 2, bidirectional=True, dtype="float64")
    one = kind(3, 2, dtype="float64")
    one.load_state_dict({name: getattr(both, f"{name}_reverse") for name in one.state_dict()})
    x = draw(5, 2, 3)
    output, state = both(x)
    backwards, own = one(x.flip(0))
    close(output[:, :, 2:].flip(0), backwards)
    for whole, part in zip(parts(state), parts(own), strict=True):
        close(whole[1:], part)


@KIND
def test_processing_in_chunks_with_a_state_matches_the_whole(kind):
    model = kind(3, 2, num_layers=2, batch_first=True, dtype="float64")
    x = draw(2, 6, 3)
    whole, last = model(x)
    first, state = model(x[:, :4])
    second, state = model(x[:, 4:], state)
    close(whole, mg.cat([first, second], 1))
    for a, b in zip(parts(last), parts(state), strict=True):
        close(a, b)


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_a_cell_is_one_step_of_its_layer(cell):
    layer = getattr(nn, cell.__name__.removesuffix("Cell"))(3, 2, dtype="float64")
    one = cell(3, 2, dtype="float64")
    one.load_state_dict({name.removesuffix("_l0"): p for name, p in layer.state_dict().items()})
    x = draw(4, 2, 3)
    state = None
    for t in range(4):
        state = one(x[t], state)
    for a, b in zip(parts(layer(x)[1]), parts(state), strict=True):
        close(a[0], b)


@KIND
def test_unidirectional_layers_record_one_node(kind):
    """Whatever the number of steps."""

    def count(steps):
        output, _ = kind(3, 2, num_layers=2)(draw(steps, 2, 3).float())
        return len(nodes_behind([output.node]))

    assert count(3) == count(30)


def test_second_derivatives_of_a_bidirectional_gru():
    model = nn.GRU(2, 2, bidirectional=True, dtype="float64")
    x = draw(3, 1, 2)
    mg.gradcheck(lambda x: model(x)[0], x, order=2)


@KIND
def test_dropout_is_between_layers_in_training(kind):
    mg.manual_seed(0)
    model = kind(3, 8, num_layers=2, dropout=0.5)
    x = draw(4, 2, 3).float()
    assert not np.array_equal(model(x)[0].numpy(), model(x)[0].numpy())
    one = kind(3, 8)
    one.load_state_dict({name: p for name, p in model.state_dict().items() if name.endswith("l0")})
    close(model(x)[1][0] if kind is not nn.LSTM else model(x)[1][0][0], parts(one(x)[1])[0][0])
    model.eval()
    close(model(x)[0], model(x)[0])
    with pytest.warns(
        UserWarning,
        match=r"dropout=0.5 has no effect with one layer: it is applied between layers.*\nPass num_layers=2",
    ):
        kind(3, 2, dropout=0.5)


@KIND
def test_weights_start_within_one_over_the_root_of_the_width(kind):
    for weight in kind(3, 16).parameters():
        assert 0.2 < abs(weight.numpy()).max() <= 0.25


def test_an_unused_lstm_output_still_gives_every_gradient():
    model = nn.LSTM(3, 2)
    x = draw(4, 2, 3).float()
    _, (_, c) = model(x)
    c.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_state_may_be_changed_in_place():
    """It is no part of what backward needs."""
    output, (h, c) = nn.LSTM(3, 2)(draw(4, 2, 3).float())
    with mg.no_grad():
        h.detach().fill_(7.0)
        c.detach().fill_(7.0)
    output.sum().backward()


@KIND
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_output_that_backward_needs_must_not_change(kind, batch_first):
    output, state = kind(3, 2, batch_first=batch_first)(draw(4, 2, 3).float())
    with mg.no_grad():
        output.add_(1)
    with pytest.raises(mg.GraphError, match=r"needs its output, which was changed since by add_"):
        parts(state)[0].sum().backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    model = nn.LSTM(3, 2, 2)
    x = draw(5, 2, 3).float()
    exact = model(x)[0]
    with mg.autocast(dtype=dtype):
        output, _ = model(x)
    assert output.dtype == dtype
    np.testing.assert_allclose(output.float().numpy(), exact.numpy(), atol=0.02)
    output.sum().backward()


@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        ("x", (5, 64)), ("h", (1, 32)), ("c", (8, 32)), ("weight_ih", (128, 32)), ("weight_hh", (96, 32)),
        ("bias_ih", (32,)), ("bias_hh", (1,)),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(name, replaced):
    shapes = {"x": (5, 2, 64), "h": (2, 32), "c": (2, 32), "weight_ih": (128, 64), "weight_hh": (128, 32)}
    shapes |= {"bias_ih": (128,), "bias_hh": (128,), name: replaced}
    with pytest.raises(mg.ShapeError, match=rf"{name} must have shape .*, got {re.escape(str(replaced))}"):
        ops["lstm"].call(*[mg.zeros(*shape) for shape in shapes.values()], None)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nn.LSTM(3, 4, proj_size=2), r"proj_size=2 is not supported.\nLeave it out, and apply nn"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), r"must be \"tanh\" or \"relu\", got 'gelu'"),
        (lambda: nn.GRU(3, 0), r"hidden_size must be a positive integer, got 0"),
        (lambda: nn.GRU(3, 4)(mg.ones(5, 2, 6)), r"expects an input of width 3, got shape \(5, 2, 6\)"),
        (lambda: nn.GRU(3, 4)(mg.ones(5, 2, 3), mg.ones(2, 2, 4)),
         r"h_0 must have shape \(1, 2, 4\), got \(2, 2"),
        (lambda: nn.GRU(3, 4)(mg.ones(5, 3), mg.ones(2, 4)),
         r"shape \(1, 4\), got \(2, 4\).\nIt is \(num_layers \* directions, hidden_size\) without"),
        (lambda: pack_padded_sequence(mg.ones(5, 2), [5, 2.5]), r"lengths must be integers, got float32"),
        (lambda: pad_packed_sequence(mg.ones(5, 2)), r"needs a PackedSequence, got Tensor"),
        (lambda: nn.LSTM(3, 4)(mg.ones(5, 2, 3), mg.ones(1, 2, 4)), r"must be a pair, \(h_0, c_0\)"),
        (lambda: nn.GRU(3, 4)(mg.ones(5, 2, 3).double()), r"float32 weights, but its input is float64"),
        (lambda: nn.GRU(3, 4)(mg.ones(0, 2, 3)), r"at least one time step"),
        (lambda: pack_padded_sequence(mg.ones(3, 2), [1, 2]),
         r"enforce_sorted=True needs lengths in decreasing order.\nPass enforce_sorted"),
        (lambda: pack_padded_sequence(mg.ones(3, 2), [4, 2]), r"lengths must be from 1 to 3, got 2 to 4"),
    ],
)  # fmt: skip
def test_invalid_calls_explain_the_fix(call, says):
    with pytest.raises(mg.MinigradError, match=says):
        call()
