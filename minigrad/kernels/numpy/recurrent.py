"""Recurrent layers: a loop over time, forward and backward.

All layers share the loop (`scan`). A `Cell` computes the gates of one step, here in NumPy. Products with x,
and the gradients of x and of the weights, are computed for several steps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import ShapeError
from ...core.kernels import kernel
from ...core.sums import column_sums
from ...ops import recurrent as ops
from ...ops.special_functions import sigmoid

ROWS = 256  # rows of x multiplied at once: they and their gates stay in the cache
Arrays = Sequence[np.ndarray]


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool = False) -> None:
    """out = a @ b, or out += a @ b if `add`."""
    if add:
        out += a @ b
    else:
        np.matmul(a, b, out=out)


class Cell(NamedTuple):
    """One step of a recurrent layer: forward(a, r, before, after, kept), backward(a, ..., kept, d, da, dr).

    `forward` overwrites the pre-activations `a`, W_ih x + W_hh h + biases, with the gates, and writes the new
    states to `after` and other arrays for backward to `kept`; `backward` receives the gates as `a`. It
    replaces `d`, the gradients of the new states, with those of the previous states (without the part that
    flows through W_hh), and writes the gradient of the pre-activations to `da`. If W_hh h + b_hh is not
    simply added to `a` (`separate`), the cell gets it as `r`, and writes its gradient to `dr`.
    """

    forward: Callable[..., None]
    backward: Callable[..., None]
    keeps: int = 0  # number of arrays (T, B, H) in `kept`
    separate: bool = False  # whether W_hh h + b_hh is `r` instead of part of `a`
    gates: int = 1  # row blocks in W_ih: 4 in an LSTM


class Tape(NamedTuple):
    """What forward saves for backward: the inputs, gates and states of all steps."""

    cell: Cell
    x: np.ndarray  # (T, B, I)
    weight_ih: np.ndarray
    weight_hh: np.ndarray
    gates: np.ndarray  # (T, B, gates H)
    states: list[np.ndarray]  # (T + 1, B, H): step t uses rows t and t + 1
    kept: list[np.ndarray]
    ended: np.ndarray | None  # (T, B, 1): True past the end of a sequence
    reverse: bool
    parts: list[slice]  # steps that are multiplied by x at once, in order

    def at(self, t: int) -> tuple[Arrays, Arrays, Arrays]:
        """The states before and after step t, and the arrays kept for its backward."""
        past, now = (t + 1, t) if self.reverse else (t, t + 1)
        return [s[past] for s in self.states], [s[now] for s in self.states], [k[t] for k in self.kept]


def scan(
    cell: Cell, x: Any, first: Arrays, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any,
    lengths: Any, reverse: bool,
) -> tuple[tuple[np.ndarray, ...], Callable]:  # fmt: skip
    """Return the outputs (T, B, H), the last states (B, H), and their gradient function."""
    _check_shapes(cell.gates, x, first, weight_ih, weight_hh, bias_ih, bias_hh, lengths)
    steps, batch, _ = x.shape
    hidden = weight_hh.shape[1]
    x, weight_ih, weight_hh = (np.ascontiguousarray(each) for each in (x, weight_ih, weight_hh))
    gates = np.empty((steps, batch, len(weight_hh)), x.dtype)
    states = [np.empty((steps + 1, batch, hidden), x.dtype) for _ in first]
    for state, start in zip(states, first, strict=True):
        state[steps if reverse else 0] = start
    kept = [np.empty((steps, batch, hidden), x.dtype) for _ in range(cell.keeps)]
    ended = None if lengths is None else np.arange(steps)[:, None, None] >= lengths[:, None]
    parts = _split_steps(steps, batch, reverse)
    tape = Tape(cell, x, weight_ih, weight_hh, gates, states, kept, ended, reverse, parts)
    _forward(tape, bias_ih, bias_hh)
    outputs = states[0][:steps] if reverse else states[0][1:]
    if ended is not None:
        outputs = np.where(ended, 0, outputs)
    last = [s[0 if reverse else steps].copy() for s in states]
    return (outputs, *last), lambda g, needs: _backward(tape, g, needs)


def _forward(tape: Tape, bias_ih: Any, bias_hh: Any) -> None:
    """Run all steps: fill the tape's gates, states and kept arrays."""
    cell = tape.cell
    x = tape.x
    gates = tape.gates
    ended = tape.ended
    recurrent = np.empty(gates.shape[1:], x.dtype) if cell.separate else None
    from_x, from_h = (np.ascontiguousarray(w.T) for w in (tape.weight_ih, tape.weight_hh))
    bias = _sum(bias_ih, None if cell.separate else bias_hh)
    for part in tape.parts:
        if bias is not None:
            gates[part] = bias
        multiply(_rows(x[part]), from_x, _rows(gates[part]), bias is not None)
        for t in _times(part, tape.reverse):
            before, after, kept = tape.at(t)
            if recurrent is not None:
                recurrent[...] = 0 if bias_hh is None else bias_hh
            multiply(before[0], from_h, gates[t] if recurrent is None else recurrent, True)
            cell.forward(gates[t], recurrent, before, after, kept)
            if ended is not None:
                for old, new in zip(before, after, strict=True):
                    np.copyto(new, old, where=ended[t])


def _backward(tape: Tape, g: Any, needs: Sequence[bool]) -> tuple:
    """Return the gradients of `scan`'s inputs, given `g`: the gradients of the outputs and last states."""
    cell, x, weight_ih, weight_hh, gates, states, *_ = tape
    past = 1 if tape.reverse else 0
    needs_x, *needs_first, needs_ih, needs_hh, needs_b_ih, needs_b_hh, _ = needs
    d = [np.zeros(states[0].shape[1:], x.dtype) if part is None else part.copy() for part in g[1:]]
    dx = np.empty_like(x) if needs_x else None
    d_ih = np.empty(weight_ih.shape, x.dtype) if needs_ih else None
    d_hh = np.empty(weight_hh.shape, x.dtype) if needs_hh else None
    sums, sums_recurrent = (np.zeros(gates.shape[2], x.dtype) for _ in range(2))
    d_gates = np.empty((max(map(_length, tape.parts)), *gates.shape[1:]), x.dtype)
    d_recurrent = np.empty_like(d_gates) if cell.separate else d_gates
    for part in reversed(tape.parts):
        _backward_part(tape, part, g[0], d, d_gates, d_recurrent)
        is_first = part == tape.parts[-1]
        flat, flat_recurrent = (_rows(each[: _length(part)]) for each in (d_gates, d_recurrent))
        if dx is not None:
            multiply(flat, weight_ih, _rows(dx[part]))
        if d_ih is not None:
            multiply(flat.T, _rows(x[part]), d_ih, not is_first)
        if d_hh is not None:
            steps_before = states[0][part.start + past : part.stop + past]
            multiply(flat_recurrent.T, _rows(steps_before), d_hh, not is_first)
        if needs_b_ih or needs_b_hh:
            sums += column_sums(flat)
            sums_recurrent += column_sums(flat_recurrent) if cell.separate else 0
    return (
        dx,
        *[each if needed else None for each, needed in zip(d, needs_first, strict=True)],
        d_ih,
        d_hh,
        sums if needs_b_ih else None,
        (sums_recurrent if cell.separate else sums.copy()) if needs_b_hh else None,
        None,
    )


def _backward_part(
    tape: Tape, part: slice, g: Any, d: list[np.ndarray], d_gates: np.ndarray, d_recurrent: np.ndarray
) -> None:
    """Run the backward pass of one part.

    On entry `d` has the gradients of the states after the part, on exit the gradients of the states before
    it. The gradients of the gates are written to `d_gates`, and of W_hh h + b_hh to `d_recurrent`. `g` is the
    gradient of the outputs, or None.
    """
    cell = tape.cell
    gates = tape.gates
    ended = tape.ended
    weight_hh = tape.weight_hh
    for t in _times(part, not tape.reverse):
        da = d_gates[t - part.start]
        dr = d_recurrent[t - part.start]
        before, after, kept = tape.at(t)
        d_before = [] if ended is None else [each.copy() for each in d]
        if g is not None:
            d[0] += g[t]
        cell.backward(gates[t], before, after, kept, d, da, dr)
        if ended is not None:
            np.copyto(da, 0, where=ended[t])
            np.copyto(dr, 0, where=ended[t])
        multiply(dr, weight_hh, d[0], True)
        if ended is not None:
            for each, old in zip(d, d_before, strict=True):
                np.copyto(each, old, where=ended[t])


def _check_shapes(
    gates: int, x: Any, first: Arrays, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any,
    lengths: Any,
) -> None:  # fmt: skip
    if x.ndim != 3:
        raise ShapeError(f"x must have shape (T, B, I), got {x.shape}.\nAdd an axis: x.unsqueeze(1).")
    _, batch, width = x.shape
    hidden = weight_hh.shape[-1]
    rows = gates * hidden
    expected: list[tuple[str, Any, tuple[int, ...]]] = [
        *((name, state, (batch, hidden)) for name, state in zip("hc", first, strict=False)),
        ("weight_ih", weight_ih, (rows, width)),
        ("weight_hh", weight_hh, (rows, hidden)),
        ("bias_ih", bias_ih, (rows,)),
        ("bias_hh", bias_hh, (rows,)),
        ("lengths", lengths, (batch,)),
    ]
    for name, array, shape in expected:
        if array is not None and array.shape != shape:
            raise ShapeError(
                f"{name} must have shape {shape}, got {array.shape}.\n"
                f"It must match x (T, B, I) {x.shape} and H = {hidden}, the width of weight_hh."
            )


def _split_steps(steps: int, batch: int, reverse: bool) -> list[slice]:
    """Split the steps into parts of about ROWS rows, in the order in which they run."""
    count = max(1, ROWS // max(batch, 1))
    parts = [slice(start, min(start + count, steps)) for start in range(0, steps, count)]
    return parts[::-1] if reverse else parts


def _sum(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else a + b


def _times(part: slice, reverse: bool) -> range:
    times = range(part.start, part.stop)
    return times[::-1] if reverse else times


def _length(part: slice) -> int:
    return part.stop - part.start


def _rows(x: np.ndarray) -> np.ndarray:
    """Reshape (steps, batch, width) to (steps * batch, width)."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


# ---------------------------------------------------------------- the cells


def _tanh(a, r, before, after, kept):
    np.tanh(a, out=after[0])


def _tanh_backward(a, before, after, kept, d, da, dr):
    np.multiply(after[0], after[0], out=da)
    np.subtract(1, da, out=da)
    da *= d[0]
    d[0][...] = 0


def _relu(a, r, before, after, kept):
    np.maximum(a, 0, out=after[0])


def _relu_backward(a, before, after, kept, d, da, dr):
    np.multiply(d[0], after[0] > 0, out=da)
    d[0][...] = 0


def _lstm(a, r, before, after, kept):
    i, f, g, o = np.split(a, 4, axis=1)
    h, c = after
    hidden = a.shape[1] // 4
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
    dh = d[0]
    hidden = n.shape[1]
    np.multiply(dh * (before[0] - n), z * (1 - z), out=d_z)
    np.multiply(dh * (1 - z), 1 - n * n, out=d_n)
    np.multiply(d_n * kept[0], reset * (1 - reset), out=d_reset)
    dr[:, : 2 * hidden] = da[:, : 2 * hidden]
    np.multiply(d_n, reset, out=dr[:, 2 * hidden :])
    dh *= z


CELLS = {
    "tanh": Cell(_tanh, _tanh_backward),
    "relu": Cell(_relu, _relu_backward),
    "lstm": Cell(_lstm, _lstm_backward, gates=4),
    "gru": Cell(_gru, _gru_backward, keeps=1, separate=True, gates=3),
}


@kernel(ops.rnn, "numpy")
def rnn(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, nonlinearity="tanh", reverse=False):
    return scan(CELLS[nonlinearity], x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


@kernel(ops.lstm, "numpy")
def lstm(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    return scan(CELLS["lstm"], x, [h, c], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)


@kernel(ops.gru, "numpy")
def gru(x, h, weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse=False):
    return scan(CELLS["gru"], x, [h], weight_ih, weight_hh, bias_ih, bias_hh, lengths, reverse)
