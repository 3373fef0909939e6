"""Attention through cuDNN, if NVIDIA's library and its Python frontend are installed.

cuDNN uses the GPU's tensor cores. It stores the same statistics L = log(sum(exp(s))) as our own kernel, so
forward and backward can each use either. It reads and writes heads as views of the projections.

Supported are bfloat16 and float16, head widths up to 128 in steps of 8, and no mask or a causal one (aligned
at the top left, like ours). Our kernel computes the rest: with a boolean mask cuDNN would need a matrix of
numbers and would not return zeros for a fully masked query, and its dropout draws other numbers. Lengths must
be multiples of 128: planning for a shape takes cuDNN a third of a second, and generating token by token would
need a plan for each length.

Backward adds up the gradient of the queries in no fixed order, so two runs differ by rounding errors (for a
fixed order cuDNN needs memory for queries × keys). Our kernel has a fixed order: `use(False)`.
"""

from __future__ import annotations

import importlib
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ....core.devices import array_module
from ....core.dtypes import HALF, bfloat16
from ....core.modes import Switch

MAX_WIDTH = 128  # the largest head dimension
# widths, lengths and addresses must be multiples of these
WIDTHS = 8
LENGTHS = 128
BYTES = 16


class _Modes(threading.local):
    enabled = True


_modes = _Modes()


class use(Switch):
    """Whether to use cuDNN if it is installed: as a statement, a context manager or a decorator."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(_modes, "enabled", enabled, at_once=True)


def takes(q: Any, k: Any, v: Any) -> bool:
    """Whether cuDNN is enabled and supports attention for these arrays (batch, heads, length, width)."""
    return (
        _modes.enabled
        and q.dtype in HALF
        and not any(x.shape[2] % LENGTHS or x.shape[3] % WIDTHS or x.shape[3] > MAX_WIDTH for x in (q, k, v))
        and _session_for(q) is not None
    )


def attention(q: Any, k: Any, v: Any, y: Any, logarithms: Any, is_causal: bool, scale: float) -> bool:
    """Write y and the statistics (batch, heads, queries); return False, without writing, if unsupported."""
    return takes(q, k, v) and _run([*map(_readable, (q, k, v)), y], logarithms, is_causal, scale)


def attention_backward(
    q: Any, k: Any, v: Any, y: Any, g: Any, logarithms: Any, into: list[Any], is_causal: bool, scale: float
) -> bool:
    """Write the gradients of q, k and v, given g of y; return False, without writing, if unsupported."""
    return takes(q, k, v) and _run([*map(_readable, (q, k, v, y, g)), *into], logarithms, is_causal, scale)


def _run(arrays: list[Any], logarithms: Any, is_causal: bool, scale: float) -> bool:
    xp = array_module(logarithms)
    dtype = arrays[0].dtype
    layouts = tuple((x.shape, _strides(x)) for x in arrays)
    device = xp.cuda.runtime.getDevice()
    plan = _plan(xp, device, dtype, layouts, is_causal, scale)
    if plan is None:
        return False
    session = _session_for(logarithms)
    assert session is not None
    workspace = xp.empty(max(plan.workspace, 1), np.uint8)
    addresses = {of: x.data.ptr for of, x in zip(plan.tensors, [*arrays, logarithms], strict=True)}
    plan.graph.execute(addresses, workspace.data.ptr, handle=session.handle)
    return True


# ---------------------------------------------------------------- memory layout


def _strides(x: Any) -> tuple[int, ...]:
    """Strides in elements; for an axis of length 1, the stride of a contiguous array."""
    steps = []
    behind = 1
    for n, step in zip(reversed(x.shape), reversed(x.strides), strict=True):
        steps.append(step // x.itemsize if n > 1 else behind)
        behind = max(behind, n * steps[-1])
    return tuple(reversed(steps))


def _readable(x: Any) -> Any:
    """x, or a copy if cuDNN cannot read it: it reads 16 aligned bytes at a time, and does not broadcast."""
    *outer, last = _strides(x)
    apart = BYTES // x.itemsize
    fits = last == 1 and all(step > 0 and step % apart == 0 for step in outer) and x.data.ptr % BYTES == 0
    return x if fits else x.copy()


# ---------------------------------------------------------------- plans


class _Plan(NamedTuple):
    graph: Any
    tensors: list[Any]  # one for each array
    workspace: int  # bytes


@lru_cache(maxsize=256)
def _plan(xp: Any, device: int, dtype: Any, layouts: tuple, is_causal: bool, scale: float) -> _Plan | None:
    """cuDNN's plan for a case on a GPU; None if it is not supported."""
    session = _session(xp, device)
    assert session is not None
    try:
        return build_plan(session.cudnn, dtype, layouts, is_causal, scale, handle=session.handle)
    except session.cudnn.cudnnGraphNotSupportedError:
        return None


def build_plan(cudnn: Any, dtype: Any, layouts: tuple, is_causal: bool, scale: float, **where: Any) -> _Plan:
    """Build a plan for these layouts: q, k, v and y; for backward also the gradients of y, q, k and v."""
    kind = cudnn.data_type.BFLOAT16 if dtype == bfloat16 else cudnn.data_type.HALF
    single = cudnn.data_type.FLOAT
    graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=single, compute_data_type=single, **where)
    (batch, heads, queries, _), _ = layouts[0]
    statistics = (batch, heads, queries, 1), (heads * queries, queries, 1, 1)
    how = {"attn_scale": scale, "use_causal_mask": is_causal}

    def tensor(layout: tuple, kind: Any = kind) -> Any:
        return graph.tensor(dim=layout[0], stride=layout[1], data_type=kind)

    def output(tensor: Any, layout: tuple, kind: Any = kind) -> Any:
        return tensor.set_output(True).set_dim(layout[0]).set_stride(layout[1]).set_data_type(kind)

    if len(layouts) == 4:
        ins = [tensor(layout) for layout in layouts[:3]]
        y, logarithms = graph.sdpa(*ins, is_inference=False, **how)
        outs = [output(y, layouts[3])]
        output(logarithms, statistics, single)
    else:
        ins = [tensor(layout) for layout in layouts[:5]]
        logarithms = tensor(statistics, single)
        made = graph.sdpa_backward(*ins, logarithms, **how)
        outs = [output(d, layout) for d, layout in zip(made, layouts[5:], strict=True)]
    _build(cudnn, graph)
    return _Plan(graph, [*ins, *outs, logarithms], graph.get_workspace_size())


def _build(cudnn: Any, graph: Any) -> None:
    """Build the graph's plans from cuDNN's own kernels, without the ones that its frontend compiles."""
    graph.validate()
    graph.build_operation_graph()
    graph.deselect_engines(["sdpa_"])
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()


# ---------------------------------------------------------------- the library


class _Session:
    """The cudnn module and its handle for a GPU."""

    def __init__(self, cudnn: Any) -> None:
        self.cudnn = cudnn
        self.handle = cudnn.create_handle()


def _session_for(x: Any) -> _Session | None:
    """The session for the GPU and stream in use; None if cuDNN or its frontend is not installed."""
    cuda = array_module(x).cuda
    session = _session(array_module(x), cuda.runtime.getDevice())
    if session is not None:
        session.cudnn.set_stream(session.handle, cuda.get_current_stream().ptr)
    return session


@lru_cache(maxsize=16)
def _session(xp: Any, device: int) -> _Session | None:
    try:
        return _Session(importlib.import_module("cudnn"))
    except (ImportError, OSError, RuntimeError):  # OSError, RuntimeError: a library of cuDNN is missing
        return None
