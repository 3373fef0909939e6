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

from .errors import UserError, check_whole


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
        start, end = self.length, self.length + keys_and_values.shape[3]
        if start:
            self.check(keys_and_values)
        if not start or end > self.buffer.shape[3]:
            self._grow(keys_and_values, end)
        self.buffer[:, :, :, start:end] = keys_and_values
        self.length = end

    def check(self, like: Float[Any, "number B H T Dh"]) -> None:
        """Refuse keys, values or queries of another batch, or of another model, than those that are here."""
        here, given = _kind(self.buffer), _kind(like)
        if here != given:
            say = "{3} (batch {0}, {1} heads of {2})".format
            raise UserError(
                f"a key/value cache holds {say(*here)}, and what follows is {say(*given)}.\n"
                f"Go on with the batch and the model that it began with, or make a new cache."
            )

    def read(self) -> Float[Any, "2 B H S Dh"]:
        """All keys and values so far, without a copy."""
        return self.buffer[:, :, :, : self.length]

    def keep(self, rows: Any) -> None:
        """Of the batch only these rows (an index or a mask of them)."""
        if self.length:
            self.buffer = self.buffer[:, rows]

    def _grow(self, like: Any, length: int) -> None:
        """Room for `max_length` tokens; where `length` is more, for twice as many as before."""
        room = max(length, self.max_length, 2 * self.length)
        grown = array_module(like).empty((*like.shape[:3], room, like.shape[4]), like.dtype)
        if self.length:
            grown[:, :, :, : self.length] = self.read()
        self.buffer = grown


def _kind(array: Any) -> tuple[int, int, int, np.dtype]:
    """What has to be the same for all tokens: batch, heads, numbers in a head, and dtype."""
    _, batch, heads, _, width = array.shape
    return batch, heads, width, array.dtype


class LayerCache:
    """A layer's caches: of its self-attention and, in a decoder, of its attention to the encoder's output."""

    def __init__(self, max_length: int = 0) -> None:
        self.self_attention, self.cross_attention = KeyValueCache(max_length), KeyValueCache()


class Cache:
    """A model's caches, one for each layer: `length` tokens have been read.

    With a `max_length` there is room for so many from the start; beyond it, or without it, room is made.
    A model reads `with cache:`, so that a call that fails half-way leaves in it what was there before.
    """

    def __init__(self, num_layers: int, max_length: int = 0) -> None:
        check_whole("max_length", max_length, 0)
        self.layers = [LayerCache(max_length) for _ in range(num_layers)]

    @property
    def length(self) -> int:
        return self.layers[0].self_attention.length

    def keep(self, rows: Any) -> None:
        """Of the batch only these rows (an index or a mask of them)."""
        for layer in self.layers:
            layer.self_attention.keep(rows)
            layer.cross_attention.keep(rows)

    def __enter__(self) -> None:
        first = self.layers[0]
        self.before = first.self_attention.length, first.cross_attention.length

    def __exit__(self, failure: type[BaseException] | None, *exc: object) -> None:
        if failure is not None:
            for layer in self.layers:
                layer.self_attention.length, layer.cross_attention.length = self.before
