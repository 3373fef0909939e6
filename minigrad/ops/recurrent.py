"""Recurrent networks: one layer, in one direction, over a whole sequence as one op.

A state is carried from step to step: h_t = f(x_t, h_{t-1}). Each op here is such a loop, written out as its
definition; the kernels compute the part of all gates that comes from x in one product before the loop, and
the weights' gradients in one product after it. `nn.RNN`, `nn.LSTM` and `nn.GRU` stack layers and directions.

Sequences of different lengths are padded at their end. Past the end of a row its state stays unchanged
and its output is 0, so that in either direction a row has the same outputs and last state as without padding.
"""

from __future__ import annotations

import numpy as np

from ..core.composites import composite
from ..core.costs import Flops
from ..core.modes import named_scope
from .activations import relu, sigmoid
from .comparisons import where
from .elementary import tanh
from .linalg import linear
from .samplers import cases, within_one
from .shaping import stack
from .stacking import chunk, unbind

__family__ = "other"

FLOATS = (0, 1, 2, 3, 4, 5)  # the operands of an op with one state that share a dtype


def _scan(step, inputs, states, lengths, reverse):
    """Run `step` over time. Return the first state after each step (T, B, H), and all states at the end."""
    inputs = unbind(inputs)
    outputs = [None] * len(inputs)
    times = range(len(inputs))
    for t in reversed(times) if reverse else times:
        with named_scope(f"t = {t + 1}"):
            new = step(inputs[t], *states)
        outputs[t] = new[0]
        if lengths is not None:
            is_inside = (lengths > t).unsqueeze(-1)
            outputs[t] = where(is_inside, new[0], 0.0)
            new = [where(is_inside, after, before) for after, before in zip(new, states, strict=True)]
        states = new
    return stack(outputs), *states


def _flops(gates, others):
    def count(inputs, result, settings):
        steps, batch, width = inputs[0]
        hidden = inputs[1][-1]
        return steps * batch * hidden * (2 * gates * (width + hidden + 1) + others)

    return Flops(
        f"{2 * gates} × (width of x + width of h + 1) + {others}, for each step, row and element of h", count
    )


def _samples(gates, states, **settings):
    """Samples with one row of width 1 and a state of 2, and two rows of width 2, of different lengths."""
    first = [(within_one, 1, 2)] * states
    weights = [(within_one, 2 * gates, 1), (within_one, 2 * gates, 2)]
    biases = [(within_one, gates)] * 2
    short = np.array([1, 2])
    rows = [(within_one, 2, 1)] * states
    narrow = [(within_one, gates, 2), (within_one, gates, 1)]
    return cases(
        (within_one, 3, 1, 1), *first, *weights, None, None, None, reverse=False, **settings
    ) | cases((within_one, 2, 2, 2), *rows, *narrow, *biases, short, reverse=True, **settings)


@composite(
    autocast="lower",
    promotes=FLOATS,
    samples=_samples(1, 1, nonlinearity="relu") | _samples(1, 1, nonlinearity="tanh"),
    latex=(
        r"\delta_t W_{ih},\quad \delta_t = (g_t + \delta_{t+1} W_{hh}) \odot f'(a_t)",
        r"\delta_1 W_{hh}",
        r"\textstyle\sum_t \delta_t^\top x_t",
        r"\textstyle\sum_t \delta_t^\top h_{t-1}",
        r"\textstyle\sum_t \delta_t",
        r"\textstyle\sum_t \delta_t",
    ),
    flops=_flops(1, 2),
)
def rnn(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, /, nonlinearity="tanh", reverse=False):
    """h_t = f(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), f "tanh" or "relu" (Elman 1990).

    x (T, B, I), h (B, H), weights (H, I) and (H, H), biases (H,) or None, lengths (B,) or None.
    Returns every h_t (T, B, H) and the last; `reverse` begins at the end of each row.
    """
    f = relu if nonlinearity == "relu" else tanh

    def step(x, h):
        return (f(x + linear(h, weight_hh, bias_hh)),)

    return _scan(step, linear(x, weight_ih, bias_ih), (h,), lengths, reverse)


@composite(
    autocast="lower",
    promotes=(*FLOATS, 6),
    samples=_samples(4, 2),
    latex=(
        r"\delta_t W_{ih},\quad"
        r" \delta_t = (e_t \odot i_t' \odot \tilde{c}_t,\; e_t \odot f_t' \odot c_{t-1},\;"
        r" e_t \odot i_t \odot \tilde{c}_t',\; d_t \odot o_t' \odot \tanh c_t),\;"
        r" d_t = g_t + \delta_{t+1} W_{hh},\; e_t = d_t \odot o_t \odot \tanh' c_t + e_{t+1} \odot f_{t+1}",
        r"\delta_1 W_{hh}",
        r"e_1 \odot f_1",
        r"\textstyle\sum_t \delta_t^\top x_t",
        r"\textstyle\sum_t \delta_t^\top h_{t-1}",
        r"\textstyle\sum_t \delta_t",
        r"\textstyle\sum_t \delta_t",
    ),
    flops=_flops(4, 24),
)
def lstm(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, /, reverse=False):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000).

    i, f, g, o = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);
    h_t = sigmoid(o) tanh(c_t). x (T, B, I), h and c (B, H), weights (4 H, I) and (4 H, H), biases (4 H,) or
    None, lengths (B,) or None. Returns every h_t (T, B, H), and the last h and c.
    """

    def step(x, h, c):
        i, f, g, o = chunk(x + linear(h, weight_hh, bias_hh), 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    return _scan(step, linear(x, weight_ih, bias_ih), (h, c), lengths, reverse)


@composite(
    autocast="lower",
    promotes=FLOATS,
    samples=_samples(3, 1),
    latex=(
        r"\delta_t W_{ih},\quad"
        r" \delta_t = (e_t \odot r_t' \odot m_t,\; d_t \odot z_t' \odot (h_{t-1} - n_t),\; e_t),"
        r"\; e_t = d_t \odot (1 - z_t) \odot n_t',\; m_t = W_{hn} h_{t-1} + b_{hn},\;"
        r" d_t = g_t + d_{t+1} \odot z_{t+1} + \hat{\delta}_{t+1} W_{hh}",
        r"d_1 \odot z_1 + \hat{\delta}_1 W_{hh},\quad \hat{\delta}_t = \delta_t \text{ with } e_t \odot r_t",
        r"\textstyle\sum_t \delta_t^\top x_t",
        r"\textstyle\sum_t \hat{\delta}_t^\top h_{t-1}",
        r"\textstyle\sum_t \delta_t",
        r"\textstyle\sum_t \hat{\delta}_t",
    ),
    flops=_flops(3, 17),
)
def gru(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, /, reverse=False):
    """Gated recurrent unit (Cho et al. 2014), with the reset gate applied after the product, as in PyTorch.

    r, z = sigmoid(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh); n = tanh(W_in x_t + b_in + r (W_hn h_{t-1} +
    b_hn)); h_t = (1 - z) n + z h_{t-1}. x (T, B, I), h (B, H), weights (3 H, I) and (3 H, H), biases (3 H,)
    or None, lengths (B,) or None. Returns every h_t (T, B, H) and the last.
    """

    def step(x, h):
        x_r, x_z, x_n = chunk(x, 3, -1)
        h_r, h_z, h_n = chunk(linear(h, weight_hh, bias_hh), 3, -1)
        r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
        n = tanh(x_n + r * h_n)
        return ((1 - z) * n + z * h,)

    return _scan(step, linear(x, weight_ih, bias_ih), (h,), lengths, reverse)
