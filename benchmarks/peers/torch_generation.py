"""Greedy decoding with a key/value cache in PyTorch, as a user of it would write it for speed.

The cache is in preallocated buffers: with `torch.cat`, one token at a time, it took as long or longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from minitransformer import GPTConfig

from .torch_models import GPT, GPTLayer


class CachedLayer(GPTLayer):
    """A layer that reads new tokens, from position `start`, and has the keys and values of the others."""

    def forward(self, x: Any, keys: Any, values: Any, start: int) -> Any:  # type: ignore[override]
        B, T, D = x.shape
        end = start + T
        attention = self.self_attention
        qkv = F.linear(self.residual1.norm(x), attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = qkv.view(B, T, 3, attention.heads, -1).permute(2, 0, 3, 1, 4)
        keys[:, :, start:end] = k
        values[:, :, start:end] = v
        y = F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], is_causal=T > 1)
        x = x + attention.out_proj(y.transpose(1, 2).reshape(B, T, D))
        return x + self.feed_forward(self.residual2.norm(x))


class CachedGPT(GPT):
    """ids (B, T) from position `start` -> the last one's logits (B, V)."""

    def __init__(self, config: GPTConfig, weights: dict[str, np.ndarray]) -> None:
        super().__init__(config)
        self.config = config
        self.layers.layers = nn.ModuleList(CachedLayer(config) for _ in range(config.n_layer))
        self.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.eval()

    def forward(self, ids: Any, caches: Any, start: int) -> Any:  # type: ignore[override]
        places = self.positions.weight[start : start + ids.shape[1]]
        x = F.embedding(ids, self.embedding.weight) + places
        for layer, (keys, values) in zip(self.layers.layers, caches, strict=True):
            x = layer(x, keys, values, start)
        return F.linear(self.layers.norm(x[:, -1]), self.embedding.weight)

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
        c = self.config
        ids = torch.tensor(prompts)
        start = 0
        chosen = []
        length = ids.shape[1] + max_new_tokens
        caches = torch.empty(c.n_layer, 2, len(ids), c.n_head, length, c.n_embd // c.n_head)
        for _ in range(max_new_tokens):
            logits = self(ids, caches, start)
            start += ids.shape[1]
            ids = logits.argmax(-1, keepdim=True)
            chosen.append(ids)
        return torch.cat(chosen, 1).tolist()
