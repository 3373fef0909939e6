"""The key/value cache: keys and values of the tokens that attention has processed.

No token attends to a later one, so the keys and values of earlier tokens do not change while text is
generated. Each step computes the keys and values of the new token only, and reads the others from the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, is_grad_enabled
from minigrad.core.devices import array_module

from ..errors import UserError, check_integer


class KeyValueCache:
    """Keys and values of the `length` tokens that one attention layer has processed.

    They are packed in a buffer (B, capacity, 2 G d), where G is the number of heads. The capacity is
    `max_length` at first and doubles when the buffer is full, so that most appends copy only the new token.
    """

    def __init__(self, max_length: int = 0) -> None:
        self.length = 0
        self.max_length = max_length
        self.buffer: Any = np.empty((0, 0, 0), np.float32)
        self.layout: tuple = ()  # batch, heads, width of a head, dtype
        self.beams = 1  # beams of each sentence, which share its row of keys and values

    @property
    def keys(self) -> Float[Any, "B H S Dh"]:
        return self._heads(0)

    @property
    def values(self) -> Float[Any, "B H S Dh"]:
        return self._heads(1)

    def _heads(self, half: int) -> Any:
        batch, heads, width, _ = self.layout
        stored = self.buffer[:, : self.length].reshape(batch, self.length, 2, heads, width)
        return stored[:, :, half].swapaxes(1, 2)

    def append(self, kv: Float[Tensor, "B T 2*D"], num_heads: int) -> Float[Tensor, "B S 2*D"]:
        """Store the keys and values of T more tokens. Return a view of all that are stored."""
        if is_grad_enabled():
            raise UserError(
                "a key/value cache does not support gradients.\n"
                "Decode under `with minigrad.no_grad():`, or without a cache."
            )
        new = kv.array
        start = self.length
        end = start + new.shape[1]
        layout = new.shape[0], num_heads, new.shape[2] // (2 * num_heads), new.dtype
        if start and layout != self.layout:
            raise self._mismatch_error(layout)
        if end > self.buffer.shape[1] or layout != self.layout:
            self._grow(new, end)
        self.buffer[:, start:end] = new
        self.length = end
        self.layout = layout
        return Tensor(self.buffer[:, :end])

    def read(self, q: Float[Tensor, "B T D"], num_heads: int, head_dim: int) -> Float[Tensor, "N S 2*Dk"]:
        """A view of all keys and values, after a check that they fit the queries q.

        `num_heads` is the number of heads of keys and values. q has `beams` rows for each row of the cache.
        """
        layout = q.shape[0] // self.beams, num_heads, head_dim, q.dtype
        if layout != self.layout:
            raise self._mismatch_error(layout)
        return Tensor(self.buffer[:, : self.length])

    def batch_select_indices(self, indices: Any) -> None:
        """Select rows of the batch, by indices or a boolean mask. Only rows that move are copied."""
        if not self.length:
            return
        rows = np.arange(len(self.buffer))[indices]
        batch, capacity, width = self.buffer.shape
        new = self.buffer
        changed = (rows != np.arange(len(rows))).nonzero()[0]
        if len(rows) > batch:
            new = array_module(new).empty((len(rows), capacity, width), new.dtype)
            new[:batch, : self.length] = self.buffer[:, : self.length]
        new[changed, : self.length] = self.buffer[rows[changed], : self.length]
        self.buffer = new[: len(rows)]
        self.layout = (len(rows), *self.layout[1:])

    def _mismatch_error(self, layout: tuple) -> UserError:
        """The error for keys, values or queries whose batch size, heads or dtype differ from the cache's."""
        describe = "{3} (batch {0}, {1} heads of {2})".format
        return UserError(
            f"a key/value cache of {describe(*self.layout)}, got {describe(*layout)}.\n"
            f"Continue with the same batch and the same model, or make a new cache."
        )

    def _grow(self, new: Any, length: int) -> None:
        """Allocate a buffer for at least `length` tokens: `max_length` at first, later twice those stored."""
        capacity = max(length, self.max_length, 2 * self.length)
        grown = array_module(new).empty((new.shape[0], capacity, new.shape[2]), new.dtype)
        if self.length:
            grown[:, : self.length] = self.buffer[:, : self.length]
        self.buffer = grown


class LayerCache:
    """The caches of one layer, for self-attention and, in a decoder, for cross-attention."""

    def __init__(self, max_length: int = 0) -> None:
        self.self_attention = KeyValueCache(max_length)
        self.cross_attention = KeyValueCache()


class Cache:
    """The key/value caches of a model's layers. `length` is the number of tokens in them.

    Buffers have a capacity of `max_length` from the start, and grow beyond it when needed. A model runs its
    layers under `with cache:`, so that a call that raises an error leaves the cache unchanged.
    """

    def __init__(self, num_layers: int, max_length: int = 0) -> None:
        check_integer("max_length", max_length, 0)
        self.layers = [LayerCache(max_length) for _ in range(num_layers)]
        self._saved_lengths: list[tuple[int, int]] = []  # one for each open `with`

    @property
    def length(self) -> int:
        return self.layers[0].self_attention.length

    def batch_select_indices(self, indices: Any) -> None:
        """Select rows of the batch, by indices or a boolean mask."""
        for layer in self.layers:
            layer.self_attention.batch_select_indices(indices)
            layer.cross_attention.batch_select_indices(indices)

    def select_beams(self, sentences: Any, parents: Any) -> None:
        """Keep `sentences` (n,), and for each the rows `parents` (n, beams) that its new beams continue.

        The beams of a sentence share its keys and values of cross-attention, which are not repeated.
        """
        for layer in self.layers:
            layer.self_attention.batch_select_indices(parents.ravel())
            layer.cross_attention.batch_select_indices(sentences)
            layer.cross_attention.beams = parents.shape[1]

    def __enter__(self) -> None:
        first = self.layers[0]
        self._saved_lengths.append((first.self_attention.length, first.cross_attention.length))

    def __exit__(self, failure: type[BaseException] | None, *exc: object) -> None:
        lengths = self._saved_lengths.pop()
        if failure is not None:
            for layer in self.layers:
                layer.self_attention.length, layer.cross_attention.length = lengths
