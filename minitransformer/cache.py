"""The key/value cache: keys and values of the tokens that attention has read.

No token attends to a later one. So while a text is generated token by token, the keys and values of its
earlier tokens do not change: a step computes those of the new token and takes the others from the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, is_grad_enabled
from minigrad.devices import array_module

from .errors import UserError, check_integer


class KeyValueCache:
    """Keys and values of the `length` tokens that one attention layer has read.

    They stand side by side in a buffer (B, capacity, 2 D). Its capacity is `max_length` at first and doubles
    when it is full, so that appending a token does not copy the others.
    """

    def __init__(self, max_length: int = 0) -> None:
        self.length, self.max_length = 0, max_length
        self.buffer: Any = np.empty((0, 0, 0), np.float32)
        self.kind: tuple = ()  # what all tokens share: batch, heads, width of a head, dtype

    @property
    def keys(self) -> Float[Any, "B H S Dh"]:
        return self._heads(0)

    @property
    def values(self) -> Float[Any, "B H S Dh"]:
        return self._heads(1)

    def _heads(self, half: int) -> Any:
        batch, heads, width, _ = self.kind
        stored = self.buffer[:, : self.length].reshape(batch, self.length, 2, heads, width)
        return stored[:, :, half].swapaxes(1, 2)

    def append(self, kv: Float[Tensor, "B T 2*D"], num_heads: int) -> Float[Tensor, "B S 2*D"]:
        """Store keys and values of T more tokens; gives those of all tokens, without a copy."""
        if is_grad_enabled():
            raise UserError(
                "a key/value cache keeps no graph, and gradients are being recorded.\n"
                "Decode within `with minigrad.no_grad():`, or without a cache."
            )
        new, start = kv.array, self.length
        end = start + new.shape[1]
        kind = new.shape[0], num_heads, new.shape[2] // (2 * num_heads), new.dtype
        if start:
            self._check(kind)
        if not start or end > self.buffer.shape[1]:
            self._grow(new, end)
        self.buffer[:, start:end] = new
        self.length, self.kind = end, kind
        return Tensor(self.buffer[:, :end])

    def read(self, q: Float[Tensor, "B T D"], num_heads: int) -> Float[Tensor, "B S 2*D"]:
        """All keys and values, without a copy, for the queries q of `num_heads` heads."""
        self._check((q.shape[0], num_heads, q.shape[2] // num_heads, q.dtype))
        return Tensor(self.buffer[:, : self.length])

    def batch_select_indices(self, indices: Any) -> None:
        """Keep only these rows of the batch: indices, or a boolean mask."""
        if self.length:
            self.buffer = self.buffer[indices]
            self.kind = len(self.buffer), *self.kind[1:]

    def _check(self, kind: tuple) -> None:
        """Refuse keys, values or queries of another batch or model than the stored ones."""
        if kind != self.kind:
            say = "{3} (batch {0}, {1} heads of {2})".format
            raise UserError(
                f"a key/value cache holds {say(*self.kind)}, and what follows is {say(*kind)}.\n"
                f"Continue with the same batch and the same model, or make a new cache."
            )

    def _grow(self, like: Any, length: int) -> None:
        """Make the capacity `max_length`; where `length` is more, at least twice what is stored."""
        capacity = max(length, self.max_length, 2 * self.length)
        grown = array_module(like).empty((like.shape[0], capacity, like.shape[2]), like.dtype)
        if self.length:
            grown[:, : self.length] = self.buffer[:, : self.length]
        self.buffer = grown


class LayerCache:
    """The caches of one layer: of its self-attention and, in a decoder, of its cross-attention."""

    def __init__(self, max_length: int = 0) -> None:
        self.self_attention, self.cross_attention = KeyValueCache(max_length), KeyValueCache()


class Cache:
    """A model's caches, one for each layer: `length` tokens have been read.

    With a `max_length`, buffers have that capacity from the start and grow beyond it when needed.
    A model reads `with cache:`, so that a call that fails half-way leaves the cache as it was.
    """

    def __init__(self, num_layers: int, max_length: int = 0) -> None:
        check_integer("max_length", max_length, 0)
        self.layers = [LayerCache(max_length) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        return self.layers[0].self_attention.length

    def batch_select_indices(self, indices: Any) -> None:
        """Keep only these rows of the batch: indices, or a boolean mask."""
        for layer in self.layers:
            layer.self_attention.batch_select_indices(indices)
            layer.cross_attention.batch_select_indices(indices)

    def __enter__(self) -> None:
        first = self.layers[0]
        self.before = first.self_attention.length, first.cross_attention.length

    def __exit__(self, failure: type[BaseException] | None, *exc: object) -> None:
        if failure is not None:
            for layer in self.layers:
                layer.self_attention.length, layer.cross_attention.length = self.before
