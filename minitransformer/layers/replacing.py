"""Replacing layers of a model by others with the same inputs and outputs, such as 8-bit layers."""

from __future__ import annotations

from collections.abc import Callable

from minigrad import Tensor, nn

from .attention import MultiHeadAttention
from .cache import KeyValueCache
from .masks import check_same_batch
from .relative_positions import rotary

SETTINGS = (
    "d_model", "num_heads", "dropout", "rope_theta", "rope_scaling", "num_kv_heads", "head_dim", "scale",
    "widths",
)  # fmt: skip


def replace_layers(model: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]) -> None:
    """Replace each layer by `replacement` of it, where that is not None."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            new = replacement(child)
            if new is not None:
                setattr(parent, name, new.train(child.training))


class ReplacedAttention(MultiHeadAttention):
    """Attention whose stacked projections to queries, keys and values are computed by `in_projection`."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        for name in SETTINGS:
            setattr(self, name, getattr(attention, name))

    def in_projection(self, x: Tensor, rows: slice) -> Tensor:
        """x Wᵀ + b, with these rows of W and b."""
        raise NotImplementedError

    def project(
        self, query: Tensor, memory: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        width, both = self.widths  # of queries; of keys and values
        if memory is None:
            qkv = self.in_projection(query, slice(0, width + both))
            if self.rope_theta is not None:
                past = 0 if cache is None else cache.length
                heads = self.num_heads + self.num_kv_heads
                qkv = rotary(qkv, heads, self.head_dim, self.rope_theta, past, self.rope_scaling)
            return (qkv, None) if cache is None else cache.append_packed(qkv, width, self.num_kv_heads)
        check_same_batch(query, memory)
        q = self.in_projection(query, slice(0, width))
        if cache is not None and cache.length:
            return q, cache.read(q, self.num_kv_heads, self.head_dim)
        kv = self.in_projection(memory, slice(width, width + both))
        return q, kv if cache is None else cache.append(kv, self.num_kv_heads)
