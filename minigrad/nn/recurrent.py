"""Recurrent layers: RNN, LSTM and GRU, stacked and bidirectional, and their cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ArgumentError, DtypeError, OptionError, ShapeError
from ..core.frames import warn
from ..core.modes import modes
from ..core.tensor import Tensor, as_tensor
from ..ops import recurrent
from ..ops.creation import zeros
from ..ops.shaping import cat, stack
from ..ops.stacking import unbind
from . import functional as F
from .layers import new_parameter, reset_uniformly
from .module import Module, Parameter
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
State = Any  # a tensor h or, for an LSTM, (h, c)


def _run_layer(mode: str, x: Tensor, state: Sequence[Tensor], *others: Any, reverse: bool) -> tuple:
    """Run one layer in one direction; return (output (T, B, H), h), with c added for an LSTM."""
    if mode == "LSTM":
        return recurrent.lstm(x, *state, *others, reverse=reverse)
    if mode == "GRU":
        return recurrent.gru(x, *state, *others, reverse=reverse)
    return recurrent.rnn(x, *state, *others, nonlinearity=mode[4:].lower(), reverse=reverse)


def _rnn_mode(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise OptionError(
            f'nonlinearity must be "tanh" or "relu", got {nonlinearity!r}.\nChoose one of them.'
        )
    return f"RNN_{nonlinearity.upper()}"


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise OptionError(f"{name} must be a positive integer, got {size}.\nPass 1 or more.")


class RNNBase(Module):
    """Base class of stacked recurrent layers.

    Weights are initialized uniformly in [-1/sqrt(H), 1/sqrt(H)], H = hidden_size.

    The input is (T, B, input_size), (B, T, input_size) with `batch_first`, (T, input_size) without a batch,
    or a PackedSequence. The result is (output, h_n): the last layer's states at every step (T, B, D H), with
    D = 2 if `bidirectional`, else 1, and each layer's last state (num_layers D, B, H). The state of an LSTM
    is a pair, (h_n, c_n). `hx` is the initial state, in the same form as the returned one; zeros by default.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in GATES:
            raise OptionError(f"unknown mode {mode!r}.\nChoose one of {', '.join(GATES)}.")
        _check_sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        F.check_probability(dropout)
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):  # perhaps a size in the wrong position
                raise ArgumentError(f"{name} must be True or False, got {flag!r}.\nPass sizes by keyword.")
        if proj_size:
            raise OptionError(
                f"proj_size={proj_size} is not supported.\n"
                f"Leave it out, and apply nn.Linear({hidden_size}, {proj_size}) to the output."
            )
        if dropout and num_layers == 1:
            warn(
                f"dropout={dropout} has no effect with one layer: it is applied between layers.\n"
                f"Pass num_layers=2 or more, or apply nn.Dropout to the output."
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bool(bias)
        self.batch_first = bool(batch_first)
        self.dropout = float(dropout)
        self.bidirectional = bool(bidirectional)
        self.proj_size = 0
        self._names: list[list[str]] = []  # the names of each layer's and direction's weights
        rows = GATES[mode] * hidden_size
        for layer in range(num_layers):
            inputs = hidden_size * (1 + self.bidirectional) if layer else input_size
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, inputs), "weight_hh": (rows, hidden_size)
                }  # fmt: skip
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                self._names.append([f"{name}_l{layer}{suffix}" for name in shapes])
                for name, shape in zip(self._names[-1], shapes.values(), strict=True):
                    setattr(self, name, new_parameter(*shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_uniformly(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Do nothing; PyTorch uses this to lay out weights for cuDNN."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def forward(self, input: Any, hx: State = None) -> tuple[Any, State]:
        packed = input if isinstance(input, PackedSequence) else None
        x, lengths = (as_tensor(input), None) if packed is None else (packed.padded, packed.lengths)
        self._check_input(x, packed is not None)
        is_batched = x.ndim == 3
        if not is_batched:
            x = x.unsqueeze(1)
        elif self.batch_first and packed is None:
            x = x.transpose(0, 1)
        output: Any
        output, states = self._through_layers(x, self._initial_states(hx, x, is_batched), lengths)
        if packed is not None:
            output = packed.with_data(output)
        elif not is_batched:
            output = output.squeeze(1)
            states = [s.squeeze(1) for s in states]
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, tuple(states) if self.mode == "LSTM" else states[0]

    def _through_layers(
        self, x: Tensor, first: list[tuple[Tensor, ...]], lengths: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the last layer's output, and the final states of all layers and directions, stacked."""
        directions = 1 + self.bidirectional
        weights = self.all_weights
        last = []
        for layer in range(self.num_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for number in range(layer * directions, (layer + 1) * directions):
                own = weights[number] if self.bias else (*weights[number], None, None)
                reverse = number % directions == 1
                output, *states = _run_layer(self.mode, x, first[number], *own, lengths, reverse=reverse)
                outputs.append(output)
                last.append(states)
            x = outputs[0] if directions == 1 else cat(outputs, -1)
        return x, [stack(each) for each in zip(*last, strict=True)]

    def _initial_states(self, hx: State, x: Tensor, is_batched: bool) -> list[tuple[Tensor, ...]]:
        """Return the initial state of each layer and direction: (h,), or (h, c)."""
        count = self.num_layers * (1 + self.bidirectional)
        names = ("h_0", "c_0") if self.mode == "LSTM" else ("h_0",)
        if hx is None:
            start = zeros(x.shape[1], self.hidden_size, dtype=x.dtype, device=x.device)
            return [(start,) * len(names)] * count
        if self.mode == "LSTM" and not (isinstance(hx, tuple | list) and len(hx) == 2):
            raise OptionError("the state of an LSTM must be a pair, (h_0, c_0).\nPass both, or leave hx out.")
        if self.mode != "LSTM" and not isinstance(hx, Tensor):
            raise DtypeError(
                f"the state of {type(self).__name__} must be one tensor, got {type(hx).__name__}.\nPass h_0."
            )
        expected = (count, x.shape[1], self.hidden_size) if is_batched else (count, self.hidden_size)
        form = "batch, hidden_size), also with batch_first" if is_batched else "hidden_size) without a batch"
        parts = []
        for name, part in zip(names, hx if self.mode == "LSTM" else [hx], strict=True):
            if tuple(part.shape) != expected:
                raise ShapeError(
                    f"{type(self).__name__}: {name} must have shape {expected}, got {tuple(part.shape)}.\n"
                    f"It is (num_layers * directions, {form}."
                )
            part = as_tensor(part)
            parts.append(unbind(part if is_batched else part.unsqueeze(1)))
        return list(zip(*parts, strict=True))

    def _check_input(self, x: Any, is_packed: bool) -> None:
        name = type(self).__name__
        weight = self.all_weights[0][0]
        form = "(B, T, input_size)" if self.batch_first else "(T, B, input_size)"
        if x.ndim not in ((3,) if is_packed else (2, 3)):
            raise ShapeError(
                f"{name} cannot read an input of shape {x.shape}.\nPass {form}, or (T, input_size)."
            )
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name} expects an input of width {self.input_size}, got shape {x.shape}.\nPass {form}."
            )
        if not x.shape[1 if self.batch_first and x.ndim == 3 and not is_packed else 0]:
            raise ShapeError(
                f"{name} needs at least one time step, got an input of shape {x.shape}.\nPass {form}, T > 0."
            )
        if x.dtype != weight.dtype and modes.autocast_dtype is None:
            raise DtypeError(
                f"{name} has {weight.dtype} weights, but its input is {x.dtype}.\n"
                f"Convert one: x.to({str(weight.dtype)!r}), or model.to({str(x.dtype)!r})."
            )

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != usual:
                shown += f", {name}={getattr(self, name)}"
        return shown


class RNN(RNNBase):
    """h_t = f(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), with f tanh or relu (Elman 1990); see RNNBase."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            _rnn_mode(nonlinearity), input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, device=device, dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), stacked layers of the op `lstm`; see RNNBase.

    The rows of the weights belong to the gates i, f, g and o, in this order.

    >>> lstm = nn.LSTM(input_size=4, hidden_size=8, batch_first=True)
    >>> output, (h, c) = lstm(mg.ones(2, 5, 4))
    >>> output.shape, h.shape
    ((2, 5, 8), (1, 2, 8))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
            device, dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014), stacked layers of the op `gru`; see RNNBase.

    The rows of the weights belong to the gates r, z and n, in this order.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip


# ---------------------------------------------------------------- one step


class RNNCellBase(Module):
    """Base class of cells: one step from x (B, input_size) and a state (B, H) to the next state (B, H).

    The state is zeros by default. x and the state may also lack the batch axis.
    """

    bias_ih: Parameter | None
    bias_hh: Parameter | None
    mode = ""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bool(bias)
        rows = num_chunks * hidden_size
        self.weight_ih = new_parameter(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = new_parameter(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter(rows, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_uniformly(self, self.hidden_size)

    def _next(self, x: Tensor, states: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        name = type(self).__name__
        x = as_tensor(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name} expects an input of width {self.input_size}, got shape {x.shape}.\n"
                f"Pass (B, {self.input_size}) or ({self.input_size},)."
            )
        expected = (*x.shape[:-1], self.hidden_size)
        if states is None:
            states = (zeros(expected, dtype=x.dtype, device=x.device),) * (1 + (self.mode == "LSTM"))
        for state in states:
            if tuple(state.shape) != expected:
                raise ShapeError(
                    f"{name} got an input of shape {x.shape} with a state of shape {state.shape}.\n"
                    f"Pass a state of shape {expected}."
                )
        batched = [as_tensor(a).reshape(-1, a.shape[-1]) for a in (x, *states)]
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        _, *new = _run_layer(self.mode, batched[0].unsqueeze(0), batched[1:], *weights, None, reverse=False)
        return tuple(state.reshape(expected) for state in new)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        shown += "" if self.bias else f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return shown if nonlinearity == "tanh" else f"{shown}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an RNN: h' = f(W_ih x + b_ih + W_hh h + b_hh), with f tanh or relu."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.mode = _rnn_mode(nonlinearity)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: it takes x and the state (h, c), and returns the next state (h', c')."""

    mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hx is not None and not (isinstance(hx, tuple | list) and len(hx) == 2):
            raise OptionError("the state of an LSTMCell must be a pair, (h, c).\nPass both, or leave hx out.")
        h, c = self._next(input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: it takes x and the state h, and returns the next state h'."""

    mode = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]
