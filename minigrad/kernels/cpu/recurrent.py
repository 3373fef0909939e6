"""Recurrent layers: what comes from x in one product, then a loop over time, backwards again.

The loop over time is the same for all (`scan`); a cell is what is done with the gates of one step, here in
NumPy. Backward writes the gradient of all gates of all steps; products with it, one each, are the gradients
of x and of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .linear import column_sums
from .special import sigmoid

Arrays = Sequence[np.ndarray]


class Cell(NamedTuple):
    """One step. `a` is the gates' part from x, and in backward the gates; `r` is W_hh h + its bias.

    forward(a, r, before, after, kept) turns `a` into the gates, in place, and writes the new states; `kept`
    is what else backward needs. backward(a, before, after, kept, d, da, dr) turns `d`, the new states'
    gradients, into those of the states before, without what goes through W_hh, and writes those of a and r.
    """

    forward: Callable[..., None]
    backward: Callable[..., None]
    keeps: int = 0  # arrays (T, B, H)
    separate: bool = False  # whether r is not just added to a: then its gradient is another, and its bias
    multiply: Callable[..., Any] = np.matmul  # (rows, matrix, out): the product of each step


def scan(
    cell: Cell, x: Any, first: Arrays, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any,
    lengths: Any, reverse: bool,
) -> tuple[tuple[np.ndarray, ...], Callable]:  # fmt: skip
    """The outputs (T, B, H), the last states (B, H), and their gradient function."""
    (steps, batch, width), hidden = x.shape, weight_hh.shape[1]
    rows = x.reshape(steps * batch, width)
    gates = (rows @ weight_ih.T).reshape(steps, batch, -1)
    bias = bias_hh
    if bias_ih is not None and cell.separate:
        gates += bias_ih
    elif bias_ih is not None:
        bias = bias_ih if bias_hh is None else bias_ih + bias_hh
    # before and after step t: rows t and t + 1; in reverse the other way round
    states = [np.empty((steps + 1, batch, hidden), x.dtype) for _ in first]
    kept = [np.empty((steps, batch, hidden), x.dtype) for _ in range(cell.keeps)]
    times = range(steps)[::-1] if reverse else range(steps)
    past, now = (1, 0) if reverse else (0, 1)
    ended = None if lengths is None else np.arange(steps)[:, None, None] >= lengths[:, None]
    for state, start in zip(states, first, strict=True):
        state[steps if reverse else 0] = start
    recurrent, to_gates = np.empty(gates.shape[1:], x.dtype), np.ascontiguousarray(weight_hh.T)
    for t in times:
        before, after = [s[t + past] for s in states], [s[t + now] for s in states]
        cell.multiply(before[0], to_gates, recurrent)
        if bias is not None:
            np.add(recurrent, bias, out=recurrent)
        cell.forward(gates[t], recurrent, before, after, [k[t] for k in kept])
        if ended is not None:
            for old, new in zip(before, after, strict=True):
                np.copyto(new, old, where=ended[t])
    outputs = states[0][now : steps + now]
    if ended is not None:
        outputs = np.where(ended, 0, outputs)
    last = [s[0 if reverse else steps].copy() for s in states]

    def gradient(g: Any, needs: Sequence[bool]) -> tuple:
        d = [np.zeros((batch, hidden), x.dtype) if part is None else part.copy() for part in g[1:]]
        d_gates = np.empty_like(gates)
        d_recurrent = np.empty_like(gates) if cell.separate else d_gates
        through = np.empty((batch, hidden), x.dtype)
        for t in reversed(times):
            before, after = [s[t + past] for s in states], [s[t + now] for s in states]
            d_before = [] if ended is None else [part.copy() for part in d]
            if g[0] is not None:
                d[0] += g[0][t]
            cell.backward(gates[t], before, after, [k[t] for k in kept], d, d_gates[t], d_recurrent[t])
            if ended is not None:
                np.copyto(d_gates[t], 0, where=ended[t])
                np.copyto(d_recurrent[t], 0, where=ended[t])
            d[0] += cell.multiply(d_recurrent[t], weight_hh, through)
            if ended is not None:
                for part, old in zip(d, d_before, strict=True):
                    np.copyto(part, old, where=ended[t])
        flat, flat_recurrent = (a.reshape(steps * batch, -1) for a in (d_gates, d_recurrent))
        *d_first, for_ih, for_hh, for_b_ih, for_b_hh, _ = needs[1:]
        return (
            (flat @ weight_ih).reshape(x.shape) if needs[0] else None,
            *[part if needed else None for part, needed in zip(d, d_first, strict=True)],
            flat.T @ rows if for_ih else None,
            flat_recurrent.T @ states[0][past : steps + past].reshape(len(rows), hidden) if for_hh else None,
            column_sums(flat) if for_b_ih else None,
            column_sums(flat_recurrent) if for_b_hh else None,
            None,
        )

    return (outputs, *last), gradient


# ---------------------------------------------------------------- the cells


def _tanh(a, r, before, after, kept):
    np.add(a, r, out=after[0])
    np.tanh(after[0], out=after[0])


def _tanh_backward(a, before, after, kept, d, da, dr):
    np.multiply(after[0], after[0], out=da)
    np.subtract(1, da, out=da)
    da *= d[0]
    d[0][...] = 0


def _relu(a, r, before, after, kept):
    np.add(a, r, out=after[0])
    np.maximum(after[0], 0, out=after[0])


def _relu_backward(a, before, after, kept, d, da, dr):
    np.multiply(d[0], after[0] > 0, out=da)
    d[0][...] = 0


def _lstm(a, r, before, after, kept):
    a += r
    i, f, g, o = np.split(a, 4, axis=1)
    (h, c), hidden = after, a.shape[1] // 4
    a[:, : 2 * hidden] = sigmoid(a[:, : 2 * hidden])
    np.tanh(g, out=g)
    o[...] = sigmoid(o)
    np.multiply(f, before[1], out=c)
    c += i * g
    np.tanh(c, out=h)
    h *= o


def _lstm_backward(a, before, after, kept, d, da, dr):
    """dc' = dc + dh o (1 - tanh(c)**2); di = dc' g i (1 - i), df = dc' c_before f (1 - f), ..."""
    i, f, g, o = np.split(a, 4, axis=1)
    d_i, d_f, d_g, d_o = np.split(da, 4, axis=1)
    dh, dc = d
    t = np.tanh(after[1])
    np.multiply(dh * t, o * (1 - o), out=d_o)
    dc += dh * o * (1 - t * t)
    np.multiply(dc * g, i * (1 - i), out=d_i)
    np.multiply(dc * before[1], f * (1 - f), out=d_f)
    np.multiply(dc * i, 1 - g * g, out=d_g)
    dc *= f
    dh[...] = 0


def _gru(a, r, before, after, kept):
    hidden = a.shape[1] // 3
    gates, n = a[:, : 2 * hidden], a[:, 2 * hidden :]
    gates[...] = sigmoid(gates + r[:, : 2 * hidden])
    kept[0][...] = r[:, 2 * hidden :]
    n += gates[:, :hidden] * kept[0]
    np.tanh(n, out=n)
    np.subtract(before[0], n, out=after[0])
    after[0] *= gates[:, hidden:]
    after[0] += n


def _gru_backward(a, before, after, kept, d, da, dr):
    """With m = W_hn h + b_hn: dn = dh (1 - z) (1 - n**2), dr = dn m r (1 - r), dz = dh (h - n) z (1 - z)."""
    reset, z, n = np.split(a, 3, axis=1)
    d_reset, d_z, d_n = np.split(da, 3, axis=1)
    dh, hidden = d[0], n.shape[1]
    np.multiply(dh * (before[0] - n), z * (1 - z), out=d_z)
    np.multiply(dh * (1 - z), 1 - n * n, out=d_n)
    np.multiply(d_n * kept[0], reset * (1 - reset), out=d_reset)
    dr[:, : 2 * hidden] = da[:, : 2 * hidden]
    np.multiply(d_n, reset, out=dr[:, 2 * hidden :])
    dh *= z


CELLS = {
    "tanh": Cell(_tanh, _tanh_backward),
    "relu": Cell(_relu, _relu_backward),
    "lstm": Cell(_lstm, _lstm_backward),
    "gru": Cell(_gru, _gru_backward, keeps=1, separate=True),
}


def rnn(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, nonlinearity="tanh", reverse=False):
    return scan(CELLS[nonlinearity], x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


def lstm(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    return scan(CELLS["lstm"], x, [h, c], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


def gru(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    return scan(CELLS["gru"], x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)
