"""minitransformer's models in PyTorch, as a user of it would write them for speed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from minitransformer import GPTConfig, TransformerConfig
from minitransformer.layers.positions import positional_encoding


class SelfAttention(nn.Module):
    """Causal or masked attention of a sequence to itself, q, k and v from one product."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Any, mask: Any = None, is_causal: bool = False) -> Any:
        B, T, D = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in qkv.split(D, 2))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, D))


class CrossAttention(SelfAttention):
    """Attention of a sequence to another, k and v from one product."""

    def forward(self, x: Any, memory: Any, mask: Any = None) -> Any:  # type: ignore[override]
        B, T, D = x.shape
        q_weight, kv_weight = self.in_proj_weight.split([D, 2 * D])
        q_bias, kv_bias = self.in_proj_bias.split([D, 2 * D])
        q = F.linear(x, q_weight, q_bias).view(B, T, self.heads, -1).transpose(1, 2)
        kv = F.linear(memory, kv_weight, kv_bias)
        k, v = (part.view(B, memory.shape[1], self.heads, -1).transpose(1, 2) for part in kv.split(D, 2))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, D))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, inner)
        self.linear2 = nn.Linear(inner, width)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        x = self.linear1(x)
        return self.linear2(F.relu(x) if self.activation == "relu" else F.gelu(x, approximate="tanh"))


class Norm(nn.Module):
    """Holds a layer's norm under our name for it."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps)


class GPTLayer(nn.Module):
    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(c.n_embd, c.n_head)
        self.feed_forward = FeedForward(c.n_embd, 4 * c.n_embd, c.activation_function)
        self.residual1, self.residual2 = (Norm(c.n_embd, c.layer_norm_epsilon) for _ in range(2))

    def forward(self, x: Any) -> Any:
        x = x + self.self_attention(self.residual1.norm(x), is_causal=True)
        return x + self.feed_forward(self.residual2.norm(x))


class Stack(nn.Module):
    norm: Any

    def __init__(self, layers: list[nn.Module], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm


class Table(nn.Module):
    """A matrix of one vector for each token or position."""

    def __init__(self, number: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(number, width))


class GPT(nn.Module):
    """ids (B, T) -> logits (B, T, V), the embedding matrix as the output."""

    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.embedding = Table(c.vocab_size, c.n_embd)
        self.positions = Table(c.n_positions, c.n_embd)
        norm = nn.LayerNorm(c.n_embd, c.layer_norm_epsilon)
        self.layers = Stack([GPTLayer(c) for _ in range(c.n_layer)], norm)

    def forward(self, ids: Any) -> Any:
        x = F.embedding(ids, self.embedding.weight) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers.layers:
            x = layer(x)
        return F.linear(self.layers.norm(x), self.embedding.weight)


class EncoderLayer(nn.Module):
    """Post-norm, as in the paper."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.p = c.dropout
        self.self_attention = SelfAttention(c.d_model, c.num_heads)
        self.feed_forward = FeedForward(c.d_model, c.d_ff, c.activation)
        self.residual1, self.residual2 = (Norm(c.d_model, c.layer_norm_eps) for _ in range(2))

    def added(self, x: Any, y: Any) -> Any:
        return x + F.dropout(y, self.p, self.training)

    def forward(self, x: Any, mask: Any) -> Any:
        x = self.residual1.norm(self.added(x, self.self_attention(x, mask)))
        return self.residual2.norm(self.added(x, self.feed_forward(x)))


class DecoderLayer(EncoderLayer):
    def __init__(self, c: TransformerConfig) -> None:
        super().__init__(c)
        self.cross_attention = CrossAttention(c.d_model, c.num_heads)
        self.residual3 = Norm(c.d_model, c.layer_norm_eps)

    def forward(self, x: Any, memory: Any, mask: Any) -> Any:  # type: ignore[override]
        x = self.residual1.norm(self.added(x, self.self_attention(x, is_causal=True)))
        x = self.residual2.norm(self.added(x, self.cross_attention(x, memory, mask)))
        return self.residual3.norm(self.added(x, self.feed_forward(x)))


class Transformer(nn.Module):
    """Source and target ids -> logits (B, T, V), one matrix for both embeddings and the output."""

    table: Any

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        if c.norm_first or c.positions != "sinusoidal" or c.attention_dropout or c.activation_dropout:
            raise ValueError("written for the paper's model.\nWrite the other parts before comparing them.")
        self.c = c
        self.factor = math.sqrt(c.d_model)
        self.embedding = Table(c.vocab_size, c.d_model)
        self.encoder = Stack([EncoderLayer(c) for _ in range(c.num_encoder_layers)])
        self.decoder = Stack([DecoderLayer(c) for _ in range(c.num_decoder_layers)])
        table = torch.from_numpy(positional_encoding(c.max_positions, c.d_model))
        self.register_buffer("table", table, persistent=False)

    def embedded(self, ids: Any) -> Any:
        x = F.embedding(ids, self.embedding.weight) * self.factor + self.table[: ids.shape[1]]
        return F.dropout(x, self.c.dropout, self.training)

    def forward(self, source: Any, target: Any) -> Any:
        mask = (source != self.c.pad_token_id)[:, None, None, :]
        memory = self.embedded(source)
        for layer in self.encoder.layers:
            memory = layer(memory, mask)
        x = self.embedded(target)
        for layer in self.decoder.layers:
            x = layer(x, memory, mask)
        return F.linear(x, self.embedding.weight)
