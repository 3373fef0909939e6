"""A GPT, an encoder-decoder and an MLP as functions of a dict of arrays, for libraries that look like NumPy.

A `Library` holds the functions that each of them names differently. The weights' names are minitransformer's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitransformer import TransformerConfig
from minitransformer.layers.positions import positional_encoding

from ..works import MLP, Decoder

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Library:
    """Functions of arrays: what a user of the library would call."""

    relu: Callable[[Any], Any]
    gelu: Callable[[Any], Any]  # the tanh form
    thirds: Callable[[Any], Sequence[Any]]  # splits the last axis
    layer_norm: Callable[[Any, Any, Any], Any]  # called with x, weight, bias
    attention: Callable[..., Any]  # takes (B, T, H, D / H); causal, or with a mask if a work needs one
    cross_entropy: Callable[[Any, Any], Any]  # the mean, of logits (N, V) and classes (N,)


def gpt_loss(lib: Library, work: Decoder, p: Arrays, ids: Any, target: Any) -> Any:
    """The mean cross-entropy of the targets (B, T)."""
    B, T = ids.shape
    heads = (B, T, work.heads, work.width // work.heads)
    x = p["embedding.weight"][ids] + p["positions.weight"][:T]
    for i in range(work.layers):
        w = _Layer(p, f"layers.layers.{i}.")
        h = w.norm(lib, "residual1", x)
        qkv = h @ w["self_attention.in_proj_weight"].T + w["self_attention.in_proj_bias"]
        q, k, v = (part.reshape(heads) for part in lib.thirds(qkv))
        x = x + w.linear("self_attention.out_proj", lib.attention(q, k, v).reshape((B, T, work.width)))
        h = lib.gelu(w.linear("feed_forward.linear1", w.norm(lib, "residual2", x)))
        x = x + w.linear("feed_forward.linear2", h)
    x = lib.layer_norm(x, p["layers.norm.weight"], p["layers.norm.bias"])
    logits = x.reshape((B * T, work.width)) @ p["embedding.weight"].T
    return lib.cross_entropy(logits, target.reshape((-1,)))


class Seq2Seq:
    """The paper's model: post-norm, sinusoidal positions, ReLU, one matrix for embeddings and output."""

    def __init__(self, lib: Library, config: TransformerConfig) -> None:
        self.lib = lib
        self.config = config
        self.table = positional_encoding(config.max_positions, config.d_model)
        self.dropouts = 2 + 2 * config.num_encoder_layers + 3 * config.num_decoder_layers

    def logits(self, p: Arrays, source: Any, target: Any, drop: Callable[[Any], Any]) -> Any:
        """(B, T, V); `drop` is dropout, called `dropouts` times."""
        c, lib = self.config, self.lib
        mask = (source != c.pad_token_id)[:, None, None, :]

        def embedded(ids: Any) -> Any:
            return drop(p["embedding.weight"][ids] * math.sqrt(c.d_model) + self.table[: ids.shape[1]])

        def attend(w: _Layer, name: str, x: Any, memory: Any, mask: Any) -> Any:
            weight = w[f"{name}.in_proj_weight"].T
            bias = w[f"{name}.in_proj_bias"]
            if memory is x:
                parts = lib.thirds(x @ weight + bias)
            else:
                D = c.d_model
                parts = (x @ weight[:, :D] + bias[:D], *_halves(memory @ weight[:, D:] + bias[D:]))
            q, k, v = (part.reshape((*part.shape[:2], c.num_heads, -1)) for part in parts)
            return w.linear(f"{name}.out_proj", lib.attention(q, k, v, mask).reshape(x.shape))

        def feed_forward(w: _Layer, x: Any) -> Any:
            return w.linear("feed_forward.linear2", lib.relu(w.linear("feed_forward.linear1", x)))

        memory = embedded(source)
        for i in range(c.num_encoder_layers):
            w = _Layer(p, f"encoder.layers.{i}.")
            memory = w.norm(
                lib, "residual1", memory + drop(attend(w, "self_attention", memory, memory, mask))
            )
            memory = w.norm(lib, "residual2", memory + drop(feed_forward(w, memory)))
        x = embedded(target)
        for i in range(c.num_decoder_layers):
            w = _Layer(p, f"decoder.layers.{i}.")
            x = w.norm(lib, "residual1", x + drop(attend(w, "self_attention", x, x, None)))
            x = w.norm(lib, "residual2", x + drop(attend(w, "cross_attention", x, memory, mask)))
            x = w.norm(lib, "residual3", x + drop(feed_forward(w, x)))
        return x @ p["embedding.weight"].T


def _halves(x: Any) -> tuple[Any, Any]:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


class _Layer:
    """The weights of one layer, by the rest of their names."""

    def __init__(self, p: Arrays, prefix: str) -> None:
        self.p = p
        self.prefix = prefix

    def __getitem__(self, name: str) -> Any:
        return self.p[self.prefix + name]

    def linear(self, name: str, x: Any) -> Any:
        return x @ self[f"{name}.weight"].T + self[f"{name}.bias"]

    def norm(self, lib: Library, name: str, x: Any) -> Any:
        return lib.layer_norm(x, self[f"{name}.norm.weight"], self[f"{name}.norm.bias"])


def mlp_loss(lib: Library, work: MLP, p: Arrays, x: Any, y: Any) -> Any:
    """The mean cross-entropy of the classes (B,)."""
    for i in (0, 2):
        x = lib.relu(x @ p[f"{i}.weight"].T + p[f"{i}.bias"])
    return lib.cross_entropy(x @ p["4.weight"].T + p["4.bias"], y)
