"""A GPT in one file: it trains on your text, one character at a time, and then writes.

    python demos/gpt.py mine.txt [STEPS]   # without a text, it reads this file and learns to write Python

The numbers of the headings are the sections of "Attention Is All You Need" (Vaswani et al. 2017). Shapes: B
texts in a batch, T characters in each, H heads, D numbers for each character, V different characters.
"""

import math
import sys
from pathlib import Path

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F

D_MODEL = 96  # numbers that describe a character
HEADS = 4  # attention heads; each works with D_MODEL / HEADS numbers
LAYERS = 3
D_FF = 4 * D_MODEL  # width of the feed-forward layers
CONTEXT = 64  # characters that the model sees at once
BATCH = 16
STEPS = 600
RATE = 3e-3  # learning rate after the warm-up


# ---------------------------------------------------------------- 3.2.1 scaled dot-product attention


def attention(q, k, v, mask):
    """softmax(Q K^T / sqrt(d_k)) V: each position takes the values of the positions that it attends to."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, T, T)
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v  # (B, H, T, D/H)


# ---------------------------------------------------------------- 3.2.2 multi-head attention


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each with its own projections of the input."""

    def __init__(self):
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(4))

    def forward(self, x, mask):
        q, k, v = (self.split(project(x)) for project in (self.W_Q, self.W_K, self.W_V))
        heads = attention(q, k, v, mask)
        return self.W_O(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def split(self, x):
        """(B, T, D) -> (B, H, T, D/H)"""
        return x.unflatten(-1, (HEADS, D_MODEL // HEADS)).transpose(1, 2)


# ---------------------------------------------------------------- 3.3 position-wise feed-forward network


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, the same at each position."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(D_MODEL, D_FF)
        self.down = nn.Linear(D_FF, D_MODEL)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))  # (B, T, D) -> (B, T, D_FF) -> (B, T, D)


# ---------------------------------------------------------------- 3.1 the stack


class Layer(nn.Module):
    """Attention, then feed-forward; each adds to its input. GPT-2 normalizes before each, the paper after."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(D_MODEL), MultiHeadAttention()
        self.norm2, self.feed_forward = nn.LayerNorm(D_MODEL), FeedForward()

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.feed_forward(self.norm2(x))


# ---------------------------------------------------------------- 3.4 embeddings, 3.5 positions, softmax


class GPT(nn.Module):
    """Characters in, the logits of each next character out."""

    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL)
        self.positions = nn.Embedding(CONTEXT, D_MODEL)  # learned, as in GPT; the paper's are sines
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D_MODEL)
        for table in (self.embedding, self.positions):
            nn.init.normal_(table.weight, 0, D_MODEL**-0.5)

    def forward(self, ids):
        T = ids.shape[1]
        mask = mg.ones(T, T, dtype="bool").tril()  # a position attends to itself and to earlier ones
        x = self.embedding(ids) + self.positions.weight[:T]  # (B, T, D)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x) @ self.embedding.weight.T  # (B, T, V): the embedding is also the output layer


# ---------------------------------------------------------------- 5 training


def batch_of(ids):
    """Texts from random places, and for each character the one that follows it: two arrays (B, T)."""
    starts = mg.randint(0, len(ids) - CONTEXT, (BATCH, 1))
    places = starts + mg.arange(CONTEXT)
    return ids[places], ids[places + 1]


def loss_of(model, ids):
    x, y = batch_of(ids)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(model, ids, held_out, steps):
    losses = []
    optimizer = mg.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(step / 50, 1 - 0.9 * step / steps)  # warm-up, then decay
        loss = loss_of(model, ids)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == steps:
            with mg.no_grad():
                unseen = sum(loss_of(model, held_out).item() for _ in range(8)) / 8
            print(f"step {step}: loss {losses[-1]:.4f}, on text that was held out {unseen:.4f}")
    return losses


def write(model, ids, length):
    """Continue `ids` (1, T): draw each next character from the model's probabilities."""
    with mg.no_grad():
        for _ in range(length):
            logits = model(ids[:, -CONTEXT:])[:, -1]
            ids = mg.cat([ids, logits.softmax(-1).multinomial(1)], 1)
    return ids


def main(text, steps=STEPS, length=300):
    characters = sorted(set(text))
    ids = mg.tensor([characters.index(c) for c in text])
    cut = len(ids) * 9 // 10
    if len(ids) - cut <= CONTEXT:
        sys.exit(f"Use a longer text: a tenth of it, held out, needs more than {CONTEXT} characters.")
    mg.manual_seed(0)
    model = GPT(len(characters))
    weights = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} characters, {len(characters)} different; {weights:,} weights")
    print(f"guessing would have a loss of log {len(characters)} = {math.log(len(characters)):.4f}")
    losses = train(model, ids[:cut], ids[cut:], steps)
    print("".join(characters[i] for i in write(model, ids[:1].reshape(1, 1), length)[0].tolist()))
    return losses[-1]


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__)
    main(path.read_text(encoding="utf-8"), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)
