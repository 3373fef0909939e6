"""The key/value cache: what attention has read once it need not read again.

No token sees a later one. So while a text is generated token by token, the keys and values of its earlier
tokens stay what they were: a step computes those of the new token alone, and finds the others in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import is_grad_enabled
from minigrad.devices import array_module

from .errors import UserError


class KeyValueCache:
    """Keys and values of the `length` tokens that one attention has read, each (B, H, length, D / H).

    They fill the front of a buffer with room for `max_length` tokens, which doubles when it is full, so that
    a token copies no other.
    """

    def __init__(self, max_length: int = 0) -> None:
        self.length, self.max_length = 0, max_length
        self.buffer: Any = np.empty((2, 0, 0, 0, 0), np.float32)  # (keys and values, B, H, room, D / H)

    def extend(self, keys_and_values: Float[Any, "2 B H T Dh"]) -> None:
        """Put the keys and values of T more tokens behind those that are here."""
        if is_grad_enabled():
            raise UserError(
                "a key/value cache keeps no graph, and gradients are being recorded.\n"
                "Decode within `with minigrad.no_grad():`, or without a cache."
            )
        start, self.length = self.length, self.length + keys_and_values.shape[3]
        if self.length > self.buffer.shape[3]:
            self._grow(keys_and_values, start)
        self.buffer[:, :, :, start : self.length] = keys_and_values

    def read(self) -> Float[Any, "2 B H S Dh"]:
        """All keys and values so far, without a copy."""
        return self.buffer[:, :, :, : self.length]

    def keep(self, rows: Any) -> None:
        """Of the batch only these rows (an index or a mask of them)."""
        self.buffer = self.buffer[:, rows]

    def _grow(self, like: Any, used: int) -> None:
        """Room for `max_length` tokens; where those are more, for twice as many as before."""
        room = max(self.length, self.max_length, 2 * self.buffer.shape[3])
        grown = array_module(like).empty((*like.shape[:3], room, like.shape[4]), like.dtype)
        if used:
            grown[:, :, :, :used] = self.buffer[:, :, :, :used]
        self.buffer = grown


class LayerCache:
    """A layer's caches: of its self-attention and, in a decoder, of its attention to the encoder's output."""

    def __init__(self, max_length: int = 0) -> None:
        self.self_attention, self.cross_attention = KeyValueCache(max_length), KeyValueCache()


class Cache:
    """A model's caches, one for each layer: `length` tokens have been read.

    With a `max_length` there is room for so many from the start; beyond it, or without it, room is made.
    """

    def __init__(self, num_layers: int, max_length: int = 0) -> None:
        self.layers = [LayerCache(max_length) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        return self.layers[0].self_attention.length

    def keep(self, rows: Any) -> None:
        """Of the batch only these rows (an index or a mask of them)."""
        for layer in self.layers:
            layer.self_attention.keep(rows)
            layer.cross_attention.keep(rows)
