"""'Attention Is All You Need', step by step, on the sentence "I love AI".

Token ids become vectors (a lookup); sines and cosines of the position are added; each layer projects to
queries, keys and values in heads, weighs the values by the softmax of scaled products, adds, normalizes,
and ends in a feed-forward network; the decoder masks what is still to come; a linear layer scores words.
"""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SOURCE = {"<PAD>": 0, "<UNK>": 1, "I": 2, "love": 3, "AI": 4, "you": 5, "music": 6}
TARGET = {
    "<PAD>": 0,
    "<BOS>": 1,
    "<EOS>": 2,
    "J'aime": 3,
    "l'IA": 4,
    "Tu": 5,
    "aimes": 6,
    "la": 7,
    "musique": 8,
}
PAIRS = [
    ("I love AI", "J'aime l'IA"),
    ("you love AI", "Tu aimes l'IA"),
    ("I love music", "J'aime la musique"),
    ("you love music", "Tu aimes la musique"),
]


def positional_encoding(max_seq_len, d_model):
    """Sines at even dimensions, cosines at odd ones; computed once, never learned."""
    position = torch.arange(max_seq_len).unsqueeze(1).float()
    div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    pe = torch.zeros(max_seq_len, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def positional_encoding_by_hand(max_seq_len, d_model):
    pe = np.zeros((max_seq_len, d_model))
    for pos in range(max_seq_len):
        for i in range(0, d_model, 2):
            angle = pos / 10000 ** (i / d_model)
            pe[pos, i], pe[pos, i + 1] = np.sin(angle), np.cos(angle)
    return pe


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        batch_size, seq_len, _ = x.shape
        return x.view(batch_size, seq_len, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        Q = self.split_heads(self.W_q(x))
        K = self.split_heads(self.W_k(memory))
        V = self.split_heads(self.W_v(memory))
        scores = torch.matmul(Q, K.transpose(-2, -1)) / (self.d_k**0.5)  # (batch, heads, query, key)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attn_weights = torch.softmax(scores, dim=-1)
        attn_output = torch.matmul(attn_weights, V)
        attn_output = attn_output.transpose(1, 2).contiguous().view(x.shape[0], -1, self.d_model)
        self.attn_weights = attn_weights.detach()
        return self.W_o(attn_output)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.linear_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear_2(torch.relu(self.linear_1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask=mask))
        return self.norm2(x + self.feed_forward(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, source_mask, target_mask):
        x = self.norms[0](x + self.self_attention(x, mask=target_mask))
        x = self.norms[1](x + self.cross_attention(x, memory, mask=source_mask))
        return self.norms[2](x + self.feed_forward(x))


class Transformer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, n_layers, max_seq_len=16):
        super().__init__()
        self.d_model = d_model
        self.source_embedding = nn.Embedding(len(SOURCE), d_model, padding_idx=0)
        self.target_embedding = nn.Embedding(len(TARGET), d_model, padding_idx=0)
        self.register_buffer("pe", positional_encoding(max_seq_len, d_model))
        self.encoder = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff) for _ in range(n_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff) for _ in range(n_layers)])
        self.output = nn.Linear(d_model, len(TARGET))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def encode(self, source):
        mask = (source != 0).unsqueeze(1).unsqueeze(2)
        x = self.source_embedding(source) * math.sqrt(self.d_model)
        x = x + self.pe[: source.size(1)]
        for layer in self.encoder:
            x = layer(x, mask)
        return x, mask

    def decode(self, target, memory, source_mask):
        length = target.size(1)
        causal = torch.tril(torch.ones(length, length, dtype=torch.bool))
        mask = (target != 0).unsqueeze(1).unsqueeze(2) & causal
        x = self.target_embedding(target) * math.sqrt(self.d_model)
        x = x + self.pe[:length]
        for layer in self.decoder:
            x = layer(x, memory, source_mask, mask)
        return self.output(x)

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))


def make_data(rng, scale=1):
    sources = [[SOURCE[w] for w in source.split()] for source, _ in PAIRS]
    targets = [[1, *(TARGET[w] for w in target.split()), 2] for _, target in PAIRS]
    longest = max(map(len, targets))
    return {
        "source": np.array(sources * scale),
        "target": np.array([t + [0] * (longest - len(t)) for t in targets] * scale),
    }


def build(scale=1):
    return Transformer(d_model=16 * scale**2, num_heads=2 * scale, d_ff=32 * scale**2, n_layers=2)


def train(model, data, steps):
    history = {"loss": [], "attention": []}
    pe = positional_encoding(6, 4).flatten().tolist()
    np.testing.assert_allclose(pe, positional_encoding_by_hand(6, 4).flatten(), atol=1e-6)
    source = torch.tensor(data["source"])
    target = torch.tensor(data["target"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    warmup = 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.02 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)
    )
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=0)
        loss.backward()
        optimizer.step()
        schedule.step()
        history["loss"].append(loss.item())
    model.eval()
    with torch.no_grad():
        memory, mask = model.encode(source[:1])
        translation = torch.tensor([[1]])
        while translation[0, -1] != 2 and translation.size(1) < 8:
            next_token = model.decode(translation, memory, mask)[:, -1].argmax(dim=-1, keepdim=True)
            translation = torch.cat([translation, next_token], dim=1)
        history["attention"] += model.encoder[0].attention.attn_weights.flatten().tolist()
    history["translation"] = translation[0].tolist()
    return history
