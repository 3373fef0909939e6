"""Sequence to sequence with additive attention (Bahdanau et al. 2014), teacher forcing and padding."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

PAD_token, SOS_token, EOS_token = 0, 1, 2
MAX_LENGTH = 7


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.x2h = nn.Linear(input_size, 3 * hidden_size)
        self.h2h = nn.Linear(hidden_size, 3 * hidden_size)

    def forward(self, x, h):
        r_x, z_x, n_x = torch.chunk(self.x2h(x), 3, dim=-1)
        r_h, z_h, n_h = torch.chunk(self.h2h(h), 3, dim=-1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        n = torch.tanh(n_x + r * n_h)
        return (1 - z) * n + z * h


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=PAD_token)
        self.gru = GRUCell(hidden_size, hidden_size)

    def forward(self, input):
        embedded = self.embedding(input)
        h = torch.zeros(input.size(0), self.hidden_size).type_as(embedded)
        outputs = torch.zeros(input.size(0), input.size(1), self.hidden_size).to(embedded)
        for t in range(input.size(1)):
            alive = (input[:, t] != PAD_token).unsqueeze(-1)
            h = torch.where(alive, self.gru(embedded[:, t], h), h)
            outputs[:, t] = h
        return outputs, h


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        scores.masked_fill_(mask.unsqueeze(1), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, keys)
        return context, weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = GRUCell(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, encoder_outputs, hidden, mask, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long).fill_(SOS_token)
        decoder_outputs = []
        attentions = []
        for i in range(MAX_LENGTH):
            embedded = self.embedding(decoder_input)
            context, attn_weights = self.attention(hidden.unsqueeze(1), encoder_outputs, mask)
            hidden = self.gru(torch.cat((embedded, context), dim=2).squeeze(1), hidden)
            output = self.out(hidden).unsqueeze(1)
            decoder_outputs.append(output)
            attentions.append(attn_weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        decoder_outputs = F.log_softmax(torch.cat(decoder_outputs, dim=1), dim=-1)
        return decoder_outputs, hidden, torch.cat(attentions, dim=1)


def make_data(rng, scale=1):
    """To be translated to the reversed sentence."""
    source = np.zeros((96, MAX_LENGTH), np.int64)
    target = np.zeros((96, MAX_LENGTH), np.int64)
    for a, b in zip(source, target, strict=True):
        words = rng.integers(3, 12, rng.integers(2, MAX_LENGTH))
        a[: len(words) + 1] = [*words, EOS_token]
        b[: len(words) + 1] = [*words[::-1], EOS_token]
    return {"source": source, "target": target}


def build(scale=1):
    hidden_size = 16 * scale**2
    model = nn.Module()
    model.encoder = EncoderRNN(12, hidden_size)
    model.decoder = AttnDecoderRNN(hidden_size, 12)
    return model


def train(model, data, steps):
    encoder, decoder = model.encoder, model.decoder
    encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.005)
    decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.005)
    criterion = nn.NLLLoss(ignore_index=PAD_token)
    source = torch.tensor(data["source"]).long()
    target = torch.tensor(data["target"]).long()
    chance = random.Random(0)
    history = {"loss": [], "attention": []}
    total_loss = 0
    for step in range(steps):
        rows = torch.arange(step * 8, step * 8 + 8) % len(source)
        input_tensor = source[rows]
        target_tensor = target[rows]
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        mask = input_tensor.eq(PAD_token)
        encoder_outputs, encoder_hidden = encoder(input_tensor)
        teacher = target_tensor if chance.random() < 0.5 else None
        decoder_outputs, _, _ = decoder(encoder_outputs, encoder_hidden, mask, teacher)
        loss = criterion(decoder_outputs.view(-1, decoder_outputs.size(-1)), target_tensor.view(-1))
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        total_loss += loss.item()
        history["loss"].append(loss.item())
    with torch.no_grad():
        mask = source[:2] == PAD_token
        _, _, attentions = decoder(*encoder(source[:2]), mask)
    history["attention"] += attentions.sum(dim=1).flatten().tolist()
    return history
