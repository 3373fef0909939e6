"""Recurrent layers: the loop over time of `numpy.recurrent`, with compiled loops for the gates of a step.

Elements are independent, so no addition is reordered. Each loop uses few arrays: with more, the compiler
cannot prove that they do not overlap, and does not vectorize.
"""

from __future__ import annotations

from ...core.kernels import kernel
from ...ops import recurrent as ops
from ..numpy.recurrent import Cell, scan
from .arrays import is_float32
from .mathematics import F, logistic, loop, tanh


@kernel(ops.rnn, "numba")
def rnn(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, nonlinearity="tanh", reverse=False):
    if nonlinearity != "tanh" or not is_float32(x, h, weight_ih, weight_hh, bias_ih, bias_hh):
        return None
    return scan(RNN, x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


@kernel(ops.lstm, "numba")
def lstm(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    if not is_float32(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
        return None
    return scan(LSTM, x, [h, c], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


@kernel(ops.gru, "numba")
def gru(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    if not is_float32(x, h, weight_ih, weight_hh, bias_ih, bias_hh):
        return None
    return scan(GRU, x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


@loop
def _tanh(a, h):
    for row in range(h.shape[0]):
        for j in range(h.shape[1]):
            h[row, j] = tanh(a[row, j])


@loop
def _tanh_backward(h, d, da):
    for row in range(h.shape[0]):
        for j in range(h.shape[1]):
            da[row, j] = d[row, j] * (F(1) - h[row, j] * h[row, j])
            d[row, j] = F(0)


@loop
def _lstm(a, c_before, h, c):
    """c = f c_before + i g, h = o tanh(c)."""
    hidden = h.shape[1]
    for row in range(h.shape[0]):
        i, f = a[row, :hidden], a[row, hidden : 2 * hidden]
        g, o = a[row, 2 * hidden : 3 * hidden], a[row, 3 * hidden :]
        for j in range(2 * hidden):
            a[row, j] = logistic(a[row, j])
        for j in range(hidden):
            g[j] = tanh(g[j])
        for j in range(hidden):
            o[j] = logistic(o[j])
        for j in range(hidden):
            c[row, j] = f[j] * c_before[row, j] + i[j] * g[j]
        for j in range(hidden):
            h[row, j] = o[j] * tanh(c[row, j])


@loop
def _lstm_backward(a, c_before, c, dh, dc, da):
    """Copy the gates to da in memory order, and turn them into their gradients in place."""
    hidden = c.shape[1]
    for row in range(c.shape[0]):
        i, f = da[row, :hidden], da[row, hidden : 2 * hidden]
        g, o = da[row, 2 * hidden : 3 * hidden], da[row, 3 * hidden :]
        for j in range(4 * hidden):
            da[row, j] = a[row, j]
        for j in range(hidden):
            t = tanh(c[row, j])
            d = dh[row, j]
            dc[row, j] += d * o[j] * (F(1) - t * t)
            o[j] = d * t * (o[j] * (F(1) - o[j]))
        for j in range(hidden):
            d = dc[row, j]
            before = i[j]
            i[j] = d * g[j] * (before * (F(1) - before))
            g[j] = d * before * (F(1) - g[j] * g[j])
        for j in range(hidden):
            d = dc[row, j]
            before = f[j]
            f[j] = d * c_before[row, j] * (before * (F(1) - before))
            dc[row, j] = d * before
        for j in range(hidden):
            dh[row, j] = F(0)


@loop
def _gru(a, r, h_before, h, kept):
    """h = (1 - z) n + z h_before."""
    hidden = h.shape[1]
    for row in range(h.shape[0]):
        gates = a[row]
        others = r[row]
        for j in range(2 * hidden):
            gates[j] = logistic(gates[j] + others[j])
        reset = gates[:hidden]
        z = gates[hidden : 2 * hidden]
        n = gates[2 * hidden :]
        m = others[2 * hidden :]
        for j in range(hidden):
            kept[row, j] = m[j]
            n[j] = tanh(n[j] + reset[j] * m[j])
        for j in range(hidden):
            h[row, j] = n[j] + z[j] * (h_before[row, j] - n[j])


@loop
def _gru_backward(a, h_before, kept, dh, da, dr):
    hidden = dh.shape[1]
    for row in range(dh.shape[0]):
        reset = a[row, :hidden]
        z = a[row, hidden : 2 * hidden]
        n = a[row, 2 * hidden :]
        d_reset = da[row, :hidden]
        d_z = da[row, hidden : 2 * hidden]
        d_n = da[row, 2 * hidden :]
        d_m = dr[row, 2 * hidden :]
        for j in range(hidden):
            d_n[j] = dh[row, j] * (F(1) - z[j]) * (F(1) - n[j] * n[j])
        for j in range(hidden):
            d_m[j] = d_n[j] * reset[j]
            d_reset[j] = d_n[j] * kept[row, j] * (reset[j] * (F(1) - reset[j]))
        for j in range(hidden):
            d_z[j] = dh[row, j] * (h_before[row, j] - n[j]) * (z[j] * (F(1) - z[j]))
            dh[row, j] *= z[j]
        for j in range(2 * hidden):
            dr[row, j] = da[row, j]


RNN = Cell(
    lambda a, r, before, after, kept: _tanh(a, after[0]),
    lambda a, before, after, kept, d, da, dr: _tanh_backward(after[0], d[0], da),
)
LSTM = Cell(
    lambda a, r, before, after, kept: _lstm(a, before[1], after[0], after[1]),
    lambda a, before, after, kept, d, da, dr: _lstm_backward(a, before[1], after[1], d[0], d[1], da),
    gates=4,
)
GRU = Cell(
    lambda a, r, before, after, kept: _gru(a, r, before[0], after[0], kept[0]),
    lambda a, before, after, kept, d, da, dr: _gru_backward(a, before[0], kept[0], d[0], da, dr),
    keeps=1,
    separate=True,
    gates=3,
)
