"""Attention through cuDNN, where NVIDIA's library and its frontend for Python are installed.

cuDNN computes in 16 bits on the GPU's tensor cores. Its statistics L = log(sum(exp(s))) are those of our own
kernel, so that forward and backward can each run through either. It reads and writes heads as views of the
projections.

It takes bfloat16 and float16, heads up to 128 wide in steps of 8, no mask or the causal one, which begins at
the top left as ours does. The rest is our kernel's: a boolean mask would be a matrix of numbers to cuDNN, and
a query that may see nothing would not give zeros; its dropout draws other numbers than ours. So are lengths
that 128 does not divide: cuDNN takes a third of a second to plan for a shape, and a text that grows token by
token would need a plan each.

Backward adds up the gradient of the queries in the order in which the GPU gets to it, so that two runs differ
by roundings (for one order cuDNN needs memory for queries × keys). Our kernel has one order: `use(False)`.
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

# the widest head; what widths, lengths, addresses divide by
WIDEST = 128
WIDTHS = 8
LENGTHS = 128
BYTES = 16


class _Modes(threading.local):
    enabled = True


_modes = _Modes()


class use(Switch):
    """Whether cuDNN is used if it is installed: from now on, for a `with`, or in a function."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(_modes, "enabled", enabled, at_once=True)


def takes(q: Any, k: Any, v: Any) -> bool:
    """Whether cuDNN computes attention of these (batch, heads, length, width), without a mask."""
    return (
        _modes.enabled
        and q.dtype in HALF
        and not any(x.shape[2] % LENGTHS or x.shape[3] % WIDTHS or x.shape[3] > WIDEST for x in (q, k, v))
        and _session_for(q) is not None
    )


def attention(q: Any, k: Any, v: Any, y: Any, logarithms: Any, is_causal: bool, scale: float) -> bool:
    """Write y and the statistics (batch, heads, queries); False, and nothing is written, if cuDNN cannot."""
    return takes(q, k, v) and _run([*map(_readable, (q, k, v)), y], logarithms, is_causal, scale)


def attention_backward(
    q: Any, k: Any, v: Any, y: Any, g: Any, logarithms: Any, into: list[Any], is_causal: bool, scale: float
) -> bool:
    """Write the gradients of q, k and v for one of y; False, and nothing is written, if cuDNN cannot."""
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
    """Strides in elements; along an axis of one element those of a contiguous array."""
    steps = []
    behind = 1
    for n, step in zip(reversed(x.shape), reversed(x.strides), strict=True):
        steps.append(step // x.itemsize if n > 1 else behind)
        behind = max(behind, n * steps[-1])
    return tuple(reversed(steps))


def _readable(x: Any) -> Any:
    """x, or a copy if cuDNN cannot read it: it reads 16 bytes at a time, and broadcasts nothing."""
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
    """How cuDNN computes a case on a GPU; None if it cannot."""
    session = _session(xp, device)
    assert session is not None
    try:
        return planned(session.cudnn, dtype, layouts, is_causal, scale, handle=session.handle)
    except session.cudnn.cudnnGraphNotSupportedError:
        return None


def planned(cudnn: Any, dtype: Any, layouts: tuple, is_causal: bool, scale: float, **where: Any) -> _Plan:
    """A plan for q, k, v and y of these layouts; of backward also for the gradients of y, q, k and v."""
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
    """Let cuDNN choose among its own kernels, not among those that the frontend compiles in Python."""
    graph.validate()
    graph.build_operation_graph()
    graph.deselect_engines(["sdpa_"])
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()


# ---------------------------------------------------------------- the library


class _Session:
    """cuDNN's handle for a GPU."""

    def __init__(self, cudnn: Any) -> None:
        self.cudnn = cudnn
        self.handle = cudnn.create_handle()


def _session_for(x: Any) -> _Session | None:
    """cuDNN on the GPU and the stream in use; None where it or its frontend is not installed."""
    cuda = array_module(x).cuda
    session = _session(array_module(x), cuda.runtime.getDevice())
    if session is not None:
        session.cudnn.set_stream(session.handle, cuda.get_current_stream().ptr)
    return session


@lru_cache(maxsize=16)
def _session(xp: Any, device: int) -> _Session | None:
    try:
        return _Session(importlib.import_module("cudnn"))
    except (ImportError, OSError, RuntimeError):  # OSError, RuntimeError: of cuDNN itself, or of a part of it
        return None
