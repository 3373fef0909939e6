"""Every fused op at the sizes of `nano`: ours, torch eager's, and the readable definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import minigrad as mg
from minigrad.nn import functional
from minigrad.ops import recurrent
from minitransformer.layers.attention import multi_head_attention
from minitransformer.layers.relative_positions import rotary

from .children import in_child
from .measuring import measure, ratios, spread
from .peers import missing
from .tables import Table

# of nano
B = 12
T = 64
H = 4
D = 128
V = 65
N = B * T


class Case(NamedTuple):
    """`call(F, *tensors, *ids)` on float arrays of these shapes and on integers below `top`."""

    op: str
    call: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    ids: tuple[int, ...] | None = None
    top: int = V

    def arrays(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        rng = np.random.default_rng(0)
        floats = [rng.normal(size=shape).astype(np.float32) for shape in self.shapes]
        return floats, [] if self.ids is None else [rng.integers(0, self.top, self.ids)]


def packed_attention(F: Any, x: Any) -> Any:
    """Causal attention of heads that are packed in (B, T, 3 D), to (B, T, D)."""
    if F is functional:
        return multi_head_attention(x, None, None, H, is_causal=True)
    batch, length, width = x.shape
    q, k, v = x.view(batch, length, 3, H, -1).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(batch, length, width // 3)


def packed_rotary(F: Any, x: Any) -> Any:
    """Rotary positions of queries and keys that are packed with values in (B, T, 3 D)."""
    if F is functional:
        return rotary(x, 2 * H, D // H)
    import torch

    batch, length, _ = x.shape
    angle = torch.arange(length)[:, None, None] / 10000 ** (torch.arange(0, D // H, 2) / (D // H))
    a, b = x[..., : 2 * D].view(batch, length, 2 * H, 2, -1).unbind(-2)
    cos = angle.cos()
    sin = angle.sin()
    turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1).view(batch, length, 2 * D)
    return torch.cat([turned, x[..., 2 * D :]], -1)


def recurrent_layer(name: str, gates: int, states: int = 1) -> Case:
    """A layer of width D, over T steps."""

    def call(F: Any, x: Any, *others: Any) -> Any:
        if F is functional:
            return getattr(recurrent, name)(x, *others, None)[0]
        import torch

        first = [state.unsqueeze(0) for state in others[:states]]
        function = getattr(torch, {"rnn": "rnn_tanh"}.get(name, name))
        state = first[0] if states == 1 else first
        return function(x, state, others[states:], True, 1, 0.0, True, False, False)[0]

    weights = [(gates * D, D)] * 2 + [(gates * D,)] * 2
    return Case(name, call, [(T, B, D), *[(B, D)] * states, *weights])


HEADS = [(B, H, T, D // H)] * 3
CASES = {
    "linear, D to 4 D": Case("linear", lambda F, *x: F.linear(*x), [(N, D), (4 * D, D), (4 * D,)]),
    "gelu": Case("gelu", lambda F, x: F.gelu(x), [(N, 4 * D)]),
    "gelu, tanh": Case("gelu", lambda F, x: F.gelu(x, approximate="tanh"), [(N, 4 * D)]),
    "layer_norm": Case("layer_norm", lambda F, x, w, b: F.layer_norm(x, (D,), w, b), [(N, D), (D,), (D,)]),
    "rms_norm": Case("rms_norm", lambda F, x, w: F.rms_norm(x, (D,), w), [(N, D), (D,)]),
    "softmax": Case("softmax", lambda F, x: F.softmax(x, dim=-1), [(B, H, T, T)]),
    "log_softmax": Case("log_softmax", lambda F, x: F.log_softmax(x, dim=-1), [(N, V)]),
    "logsumexp": Case("logsumexp", lambda F, x: x.logsumexp(-1), [(N, V)]),
    "cross_entropy": Case("cross_entropy", lambda F, x, y: F.cross_entropy(x, y), [(N, V)], (N,)),
    "cross_entropy, smoothed, V 8,000": Case(
        "cross_entropy",
        lambda F, x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        [(N, 8000)], (N,), 8000,
    ),
    "embedding": Case("embedding", lambda F, w, ids: F.embedding(ids, w), [(V, D)], (B, T)),
    "embedding, V 8,000": Case("embedding", lambda F, w, ids: F.embedding(ids, w), [(8000, D)], (B, T), 8000),
    "dropout": Case("dropout", lambda F, x: F.dropout(x, 0.1), [(N, D)]),
    "attention, causal": Case(
        "scaled_dot_product_attention",
        lambda F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        HEADS,
    ),
    "attention of all heads, causal": Case("multi_head_attention", packed_attention, [(B, T, 3 * D)]),
    "rotary positions": Case("rotary", packed_rotary, [(B, T, 3 * D)]),
    "attention, T 512": Case(
        "scaled_dot_product_attention",
        lambda F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, H, 512, D // H)] * 3,
    ),
    "rnn": recurrent_layer("rnn", 1),
    "lstm": recurrent_layer("lstm", 4, states=2),
    "gru": recurrent_layer("gru", 3),
}  # fmt: skip


class Ours:
    F, grad = functional, staticmethod(mg.autograd.grad)

    @staticmethod
    def new(array: np.ndarray) -> Any:
        return mg.tensor(array, requires_grad=array.dtype.kind == "f")


def torch_library() -> Any:
    import torch

    class Theirs:
        F = torch.nn.functional
        grad = staticmethod(torch.autograd.grad)

        @staticmethod
        def new(array: np.ndarray) -> Any:
            return torch.tensor(array, requires_grad=array.dtype.kind == "f")

    return Theirs


def passes(case: Case, library: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Forward alone, and forward with backward, of one library."""
    floats, ids = case.arrays()
    tensors = [library.new(a) for a in floats]
    more = [library.new(a) for a in ids]

    def forward() -> Any:
        return case.call(library.F, *tensors, *more)

    value = np.asarray(forward().detach())
    g = library.new(np.random.default_rng(1).normal(size=value.shape).astype(np.float32)).detach()
    return forward, lambda: library.grad(forward(), tensors, g)


def readable(run: Callable[[], Any]) -> Callable[[], Any]:
    def other() -> Any:
        with mg.fused(False):
            return run()

    return other


def rows(names: Sequence[str], repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Name -> column -> microseconds and ratios."""
    libraries: dict[str, Any] = {"ours": Ours}
    if missing("torch") is None:
        import torch

        torch.set_num_threads(threads)
        libraries["torch"] = torch_library()
    return {name: _row(CASES[name], libraries, repeats, seconds, clock) for name in names}


def _row(case: Case, libraries: dict[str, Any], repeats: int, seconds: float, clock: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for which, title in enumerate(("forward", "both")):
        runs = {name: passes(case, library)[which] for name, library in libraries.items()}
        runs["readable"] = readable(runs["ours"])
        times = measure(runs, repeats, seconds, clock=clock)
        found[f"{title}, ours"] = 1e6 * spread(times["ours"]).median
        if "torch" in times:
            found[f"{title}, torch"] = 1e6 * spread(times["torch"]).median
            found[f"{title}, ratio"] = ratios(times["ours"], times["torch"])
        found[f"{title}, readable / fused"] = ratios(times["readable"], times["ours"]).median
    return found


def ops(
    threads: Sequence[int] = (1,),
    repeats: int = 20,
    seconds: float = 2.0,
    clock: str = "wall",
    kernels: str | None = None,
    names: Sequence[str] = tuple(CASES),
) -> list[Table]:
    """A table for each number of threads."""
    tables = []
    for n in threads:
        args = (list(names), repeats, seconds, n, clock)
        found = in_child("ops", "rows", *args, threads=n, kernels=kernels)
        title = f"fused ops at the sizes of nano, {n} thread{'s' if n > 1 else ''}: median us"
        tables.append(Table(title, found, [note] if (note := missing("torch")) else []))
    return tables
