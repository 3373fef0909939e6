"""A character-level LSTM whose cell is written by hand, trained through truncated time."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class LSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(4 * hidden_size))
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / self.hidden_size**0.5
        for weight in self.parameters():
            weight.data.uniform_(-stdv, stdv)
        with torch.no_grad():
            self.bias[self.hidden_size : 2 * self.hidden_size] = 1.0  # the forget gate begins open

    def forward(self, x, state):
        h, c = state
        gates = F.linear(x, self.weight_ih, self.bias) + F.linear(h, self.weight_hh)
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class CharRNN(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers=2):
        super().__init__()
        self.hidden_size = hidden_size
        self.encoder = nn.Embedding(vocab_size, hidden_size)
        self.cells = nn.ModuleList()
        for _ in range(num_layers):
            self.cells.append(LSTMCell(hidden_size, hidden_size))
        self.decoder = nn.Linear(hidden_size, vocab_size)
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        self.encoder.weight.data.uniform_(-initrange, initrange)
        self.decoder.bias.data.zero_()
        self.decoder.weight.data.uniform_(-initrange, initrange)

    def forward(self, input, hidden):
        outputs = []
        emb = self.encoder(input)  # (T, B, D)
        for x in emb:
            for layer, cell in enumerate(self.cells):
                hidden[layer] = cell(x, hidden[layer])
                x = hidden[layer][0]
            outputs.append(x)
        decoded = self.decoder(torch.stack(outputs))
        return decoded.view(-1, decoded.size(-1)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return [
            (weight.new_zeros(bsz, self.hidden_size), weight.new_zeros(bsz, self.hidden_size))
            for _ in self.cells
        ]


def repackage_hidden(h):
    """The state without its history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return type(h)(repackage_hidden(v) for v in h)


def make_data(rng, scale=1):
    period = rng.integers(0, 20, 17)
    return {"text": np.concatenate([np.roll(period, i // 7) for i in range(100)])}


def build(scale=1):
    return CharRNN(20, 16 * scale**2)


def train(model, data, steps):
    bptt = 6
    batch_size = 4
    clip = 0.25
    lr = 2.0

    def batchify(ids, bsz):
        nbatch = ids.size(0) // bsz
        ids = ids.narrow(0, 0, nbatch * bsz)
        return ids.view(bsz, -1).t().contiguous()

    ids = batchify(torch.tensor(data["text"]), batch_size)
    criterion = nn.CrossEntropyLoss()
    history = {"loss": [], "sampled": []}
    hidden = model.init_hidden(batch_size)
    model.train()
    for step in range(steps):
        i = (step * bptt) % (len(ids) - bptt - 1)
        source = ids[i : i + bptt]
        target = ids[i + 1 : i + 1 + bptt].reshape(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(source, hidden)
        loss = criterion(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        history["loss"].append(loss.item())

    model.eval()
    with torch.no_grad():
        hidden = model.init_hidden(1)
        input = torch.randint(20, (1, 1), dtype=torch.long)
        for _ in range(20):
            output, hidden = model(input, hidden)
            word_weights = output.squeeze().div(0.8).exp().cpu()
            word_idx = torch.multinomial(word_weights, 1)[0]
            input.fill_(word_idx)
            history["sampled"].append(word_idx.item())
    return history
