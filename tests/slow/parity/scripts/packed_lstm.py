"""A bidirectional LSTM that classifies packed sequences, as tutorials on sentiment have it."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Classifier(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, output_dim, n_layers, pad_index):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=pad_index)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, n_layers, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(3 * 2 * hidden_dim, output_dim)

    def forward(self, ids, length):
        embedded = self.embedding(ids)
        packed = pack_padded_sequence(embedded, length, batch_first=True, enforce_sorted=False)
        packed_output, (hidden, cell) = self.lstm(packed)
        output, output_length = pad_packed_sequence(packed_output, batch_first=True)
        mean = output.sum(dim=1) / output_length.unsqueeze(1)
        last = torch.cat([hidden[-2], hidden[-1]], dim=-1)
        memory = torch.cat([cell[-2], cell[-1]], dim=-1)
        return self.fc(torch.cat([mean, last, memory], dim=-1))


def make_data(rng, scale=1):
    """Which of the numbers 1 and 2 comes more often?"""
    ids = rng.integers(1, 9, (64 * scale, 11)) * (np.arange(11) < rng.integers(2, 12, (64 * scale, 1)))
    labels = ((ids == 1).sum(1) > (ids == 2).sum(1)).astype(np.int64)
    return {"ids": ids, "labels": labels}


def build(scale=1):
    return Classifier(9, 8 * scale, 6 * scale, 2, n_layers=2, pad_index=0)


def train(model, data, steps):
    ids = [torch.tensor(s[s > 0]) for s in data["ids"]]
    labels = torch.tensor(data["labels"])
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    history = {"loss": [], "accuracy": []}
    for step in range(steps):
        chosen = [(step * 8 + i) % len(ids) for i in range(8)]
        batch = [ids[i] for i in chosen]
        length = torch.tensor([len(s) for s in batch])
        prediction = model(pad_sequence(batch, batch_first=True), length)
        loss = criterion(prediction, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        history["loss"].append(loss.item())
        history["accuracy"].append((prediction.argmax(dim=-1) == labels[chosen]).float().mean().item())
    return history
