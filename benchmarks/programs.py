"""Small networks written once for both libraries: `F` is minigrad.nn.functional or torch.nn.functional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Program(NamedTuple):
    """`forward(F, x, *weights)` with an input and weights of these shapes."""

    forward: Callable[..., Any]
    input: tuple[int, ...]
    weights: list[tuple[int, ...]]

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        scaled = [rng.normal(size=shape) / np.sqrt(shape[-1]) for shape in self.weights]
        return [array.astype(np.float32) for array in (rng.normal(size=self.input), *scaled)]


def residual_chain(F: Any, x: Any, *weights: Any) -> Any:
    """x + gelu(x Wᵀ), repeatedly."""
    for weight in weights:
        x = x + F.gelu(F.linear(x, weight))
    return x.sum()


def mlp(F: Any, x: Any, *weights: Any) -> Any:
    """relu(x Wᵀ + b), repeatedly."""
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        x = F.relu(F.linear(x, weight, bias))
    return x.mean()


def block(
    F: Any, x: Any, qkv: Any, out: Any, up: Any, down: Any, gain: Any, shift: Any, p: float = 0.0
) -> Any:
    """A pre-norm Transformer layer: causal attention with heads of width 64, gelu between two linear
    layers."""
    batch, length, width = x.shape
    h = F.linear(F.layer_norm(x, (width,), gain, shift), qkv)
    q, k, v = h.reshape(batch, length, 3, -1, 64).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
    x = x + F.dropout(F.linear(y.transpose(1, 2).reshape(batch, length, width), out), p)
    h = F.gelu(F.linear(F.layer_norm(x, (width,), gain, shift), up))
    return x + F.dropout(F.linear(h, down), p)


def attention_block(F: Any, x: Any, *weights: Any, p: float = 0.0) -> Any:
    return block(F, x, *weights, p=p).sum()


def attention_block_with_dropout(F: Any, x: Any, *weights: Any) -> Any:
    return attention_block(F, x, *weights, p=0.1)


D = 256
BLOCK = [(3 * D, D), (D, D), (4 * D, D), (D, 4 * D), (D,), (D,)]
PROGRAMS = {
    "residual chain of 8": Program(residual_chain, (512, D), [(D, D)] * 8),
    "MLP of 8 layers": Program(mlp, (512, D), [(D, D), (D,)] * 8),
    "attention block, 32 tokens": Program(attention_block, (16, 32, D), BLOCK),
    "attention block, 256 tokens": Program(attention_block, (4, 256, D), BLOCK),
    "attention block, 1,024 tokens": Program(attention_block, (1, 1024, D), BLOCK),
    "256 tokens with dropout": Program(attention_block_with_dropout, (4, 256, D), BLOCK),
}
