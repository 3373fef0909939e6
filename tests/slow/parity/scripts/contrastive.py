"""Contrast between two views (Chen et al. 2020), a probe on a frozen encoder, low-rank updates."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch = nn.Conv1d(2, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.zeros(1, 5, width))
        nn.init.trunc_normal_(self.pos, std=0.02)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 1)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        q = k = v = self.norm(x)
        attn = torch.einsum("bid,bjd->bij", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
        x = x + attn @ v
        x = x + self.mlp(self.norm(x))
        return x[:, 0]


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=4):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_A = nn.Parameter(base.weight.new_zeros((r, base.in_features)))
        self.lora_B = nn.Parameter(base.weight.new_zeros((base.out_features, r)))
        self.scaling = alpha / r
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


def info_nce_loss(features, temperature=0.5):
    n = features.shape[0] // 2
    labels = torch.cat([torch.arange(n) for i in range(2)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    labels = torch.zeros(logits.shape[0], dtype=torch.long)
    return logits / temperature, labels


def make_data(rng, scale=1):
    labels = rng.integers(0, 3, 96)
    x = rng.normal(size=(3, 2, 16))[labels] + 0.4 * rng.normal(size=(96, 2, 16))
    return {"x": x.astype(np.float32), "labels": labels}


def build(scale=1):
    width = 16 * scale**2
    model = nn.ModuleDict(
        {"encoder": Encoder(width), "projector": nn.Linear(width, 8), "probe": nn.Linear(width, 3)}
    )
    model["lora"] = LoRALinear(nn.Linear(width, width))
    return model


def train(model, data, steps):
    x = torch.from_numpy(data["x"])
    labels = torch.from_numpy(data["labels"])
    encoder, projector = model["encoder"], model["projector"]
    decay = {"encoder.mlp.0.weight", "encoder.mlp.2.weight", "projector.weight"}
    named = [(n, p) for n, p in model.named_parameters() if not n.startswith(("lora", "probe"))]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if n in decay], "weight_decay": 0.05, "lr": 2e-3},
            {"params": [p for n, p in named if n not in decay], "weight_decay": 0.0},
        ],
        lr=5e-3,
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=0, last_epoch=-1)
    criterion = nn.CrossEntropyLoss()
    history = {"loss": [], "probe": []}
    for step in range(steps):
        rows = torch.arange(step * 12, step * 12 + 12) % len(x)
        views = [x[rows] + 0.1 * torch.randn_like(x[rows]), x[rows].flip(-1) * 0.9]
        logits, targets = info_nce_loss(projector(encoder(torch.cat(views, dim=0))))
        loss = criterion(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        _, pred = logits.topk(1, 1, True, True)
        correct = pred.t().eq(targets.view(1, -1).expand_as(pred.t()))
        history["loss"].append(loss.item())
        top1 = correct[:1].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / len(targets))
        assert 0 <= top1.item() <= 100

    for param in encoder.parameters():
        param.requires_grad = False
    lora, probe = model["lora"], model["probe"]
    trainable = [p for p in list(lora.parameters()) + list(probe.parameters()) if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.01)
    for _ in range(10):
        with torch.no_grad():
            features = encoder(x)
        loss = F.cross_entropy(
            probe(lora(features)), labels, weight=torch.tensor([1.0, 0.5, 2.0]).to(x.dtype)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["probe"].append(loss.item())
    assert all(p.grad is None for p in lora.base.parameters())
    return history
