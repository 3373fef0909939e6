"""Five ways to put a sub-layer into a stack, for experiments with residual connections and norms."""

from __future__ import annotations

from collections.abc import Callable

from minigrad import Tensor, nn

WAYS = ("bare", "norm only", "add only", "post-norm", "pre-norm")


class Around(nn.Module):
    """The norm and the residual connection around a sub-layer f, in one of WAYS."""

    def __init__(self, d_model: int, way: str) -> None:
        super().__init__()
        self.way = way
        self.norm = nn.LayerNorm(d_model) if "norm" in way else None

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:  # x (B, T, D)
        if self.way == "bare":
            return f(x)
        if self.way == "norm only":
            return self.norm(f(x))
        if self.way == "add only":
            return x + f(x)
        if self.way == "post-norm":
            return self.norm(x + f(x))
        return x + f(self.norm(x))


def put_around(model: nn.Module, d_model: int, way: str) -> None:
    """Replace the residual connections and norms of a model's encoder and decoder layers by `Around`."""
    for module in list(model.modules()):
        for name in ("residual1", "residual2", "residual3"):
            if hasattr(module, name):
                setattr(module, name, Around(d_model, way))
