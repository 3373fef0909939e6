"""The Transformer of the paper in one file: an encoder and a decoder, which learn a few sentences by heart.

    python demos/transformer.py

The numbers of the headings are the sections of "Attention Is All You Need" (Vaswani et al. 2017). Shapes: B
sentences, S words of the source, T words of the target, H heads, D numbers for each word, V words in all.
"""

import math

import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F

PAIRS = {
    "I am tired": "Je suis fatigué",
    "The cat is tired": "Le chat est fatigué",
    "The cat sees a dog": "Le chat voit un chien",
    "A dog sees the cat": "Un chien voit le chat",
    "I see the red house": "Je vois la maison rouge",
    "The house is red": "La maison est rouge",
}
D_MODEL = 32  # numbers that describe a word; 512 in the paper
HEADS = 4  # 8
LAYERS = 2  # 6 in the encoder, 6 in the decoder
D_FF = 64  # 2048
DROPOUT = 0.0  # 0.1: what must be learned by heart has no noise
SMOOTHING = 0.1
STEPS = 200  # 100,000
WARMUP = 50  # 4,000
PAD, START, END = 0, 1, 2


# ---------------------------------------------------------------- 3.1 encoder and decoder stacks


class Sublayer(nn.Module):
    """LayerNorm(x + Sublayer(x)): the residual connection and the normalization around each sub-layer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D_MODEL)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, output):
        return self.norm(x + self.dropout(output))


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network."""

    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadAttention(), FeedForward()
        self.after1, self.after2 = Sublayer(), Sublayer()

    def forward(self, x, source_mask):
        x = self.after1(x, self.attention(x, x, source_mask))
        return self.after2(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Self-attention to earlier words, attention to the encoder's output, then a feed-forward network."""

    def __init__(self):
        super().__init__()
        self.attention, self.cross = MultiHeadAttention(), MultiHeadAttention()
        self.feed_forward = FeedForward()
        self.after1, self.after2, self.after3 = Sublayer(), Sublayer(), Sublayer()

    def forward(self, x, memory, target_mask, source_mask):
        x = self.after1(x, self.attention(x, x, target_mask))
        x = self.after2(x, self.cross(x, memory, source_mask))
        return self.after3(x, self.feed_forward(x))


# ---------------------------------------------------------------- 3.2.1 scaled dot-product attention


def attention(q, k, v, mask):
    """softmax(Q K^T / sqrt(d_k)) V (equation 1); `mask` is True where a query may attend to a key."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, T, S)
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v  # (B, H, T, D/H)


# ---------------------------------------------------------------- 3.2.2 multi-head attention


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O, where head_i is the attention of Q W^Q_i, K W^K_i, V W^V_i."""

    def __init__(self):
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(4))

    def forward(self, x, memory, mask):
        q, k, v = self.split(self.W_Q(x)), self.split(self.W_K(memory)), self.split(self.W_V(memory))
        heads = attention(q, k, v, mask)
        return self.W_O(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def split(self, x):
        """(B, T, D) -> (B, H, T, D/H)"""
        return x.unflatten(-1, (HEADS, D_MODEL // HEADS)).transpose(1, 2)


# ---------------------------------------------------------------- 3.3 position-wise feed-forward networks


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (equation 2)."""

    def __init__(self):
        super().__init__()
        self.W_1 = nn.Linear(D_MODEL, D_FF)
        self.W_2 = nn.Linear(D_FF, D_MODEL)

    def forward(self, x):
        return self.W_2(F.relu(self.W_1(x)))


# ---------------------------------------------------------------- 3.5 positional encoding


def positional_encoding(length):
    """sin and cos of pos / 10000^(2i / d_model), side by side: (length, D)."""
    angles = mg.arange(length).reshape(-1, 1) / 10000 ** (mg.arange(0, D_MODEL, 2) / D_MODEL)
    return mg.stack([angles.sin(), angles.cos()], -1).flatten(1)


# ---------------------------------------------------------------- 3.4 embeddings and softmax


class Transformer(nn.Module):
    """Source and target words in, the logits of each next target word out. One matrix has all embeddings."""

    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.dropout = nn.Dropout(DROPOUT)
        nn.init.normal_(self.embedding.weight, 0, D_MODEL**-0.5)

    def embed(self, ids):
        x = self.embedding(ids) * math.sqrt(D_MODEL)
        return self.dropout(x + positional_encoding(ids.shape[1]))  # (B, T, D)

    def encode(self, source):
        mask = (source != PAD)[:, None, None]  # (B, 1, 1, S): no word attends to padding
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return x, mask

    def decode(self, target, memory, source_mask):
        T = target.shape[1]
        earlier = mg.ones(T, T, dtype="bool").tril()
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, earlier, source_mask)
        return x @ self.embedding.weight.T  # (B, T, V)

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))


# ---------------------------------------------------------------- 5 training


def rate(step):
    """d_model^-0.5 min(step^-0.5, step * warmup_steps^-1.5) (equation 3)."""
    return D_MODEL**-0.5 * min(step**-0.5, step * WARMUP**-1.5)


def train(model, source, target, steps):
    optimizer = mg.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate(step)
        logits = model(source, target[:, :-1])  # each word is predicted from those before it
        loss = F.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == steps:
            print(f"step {step}: loss {loss.item():.4f}")
    return loss.item()


def translate(model, source, length=8):
    """The most likely next word, again and again (greedy search)."""
    with mg.no_grad():
        encoded = model.encode(source)
        target = mg.full((len(source), 1), START)
        for _ in range(length):
            logits = model.decode(target, *encoded)[:, -1]
            target = mg.cat([target, logits.argmax(-1, keepdim=True)], 1)
    return target


def main(steps=STEPS):
    texts = [*PAIRS, *PAIRS.values()]
    words = ["<pad>", "<s>", "</s>", *sorted({word for text in texts for word in text.split()})]
    ids = lambda text: [START, *map(words.index, text.split()), END]
    padded = lambda rows: mg.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])
    source, target = padded([ids(text) for text in PAIRS]), padded([ids(text) for text in PAIRS.values()])
    mg.manual_seed(0)
    model = Transformer(len(words))
    print(f"{len(words)} words; {sum(p.numel() for p in model.parameters()):,} weights")
    loss = train(model, source, target, steps)
    for text, row in zip(PAIRS, translate(model, source).tolist(), strict=True):
        end = row.index(END) if END in row else len(row)
        print(f"{text} -> {' '.join(words[i] for i in row[1:end])}")
    return loss


if __name__ == "__main__":
    main()
