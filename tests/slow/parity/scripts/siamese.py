"""A siamese network with a triplet loss on the hardest negatives of a batch (Schroff et al. 2015)."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class EmbeddingNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convnet = nn.Sequential(
            nn.Conv2d(1, width, 3),
            nn.PReLU(),
            nn.MaxPool2d(2, stride=2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.PReLU(),
            nn.AvgPool2d(2),
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 4, 16), nn.PReLU(), nn.Linear(16, 4))

    def forward(self, x):
        output = self.convnet(x)
        return F.normalize(self.fc(output), p=2, dim=1)

    def get_embedding(self, x):
        return self.forward(x)


class TripletLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative, size_average=True):
        distance_positive = (anchor - positive).pow(2).sum(1)
        distance_negative = (anchor - negative).pow(2).sum(1)
        losses = F.relu(distance_positive - distance_negative + self.margin)
        return losses.mean() if size_average else losses.sum()


def pdist(vectors):
    return (
        -2 * vectors.mm(torch.t(vectors))
        + vectors.pow(2).sum(dim=1).view(1, -1)
        + vectors.pow(2).sum(dim=1).view(-1, 1)
    )


def make_data(rng, scale=1):
    labels = np.arange(80) % 8
    images = rng.normal(size=(8, 1, 10, 10))[labels] + 0.7 * rng.normal(size=(80, 1, 10, 10))
    order = rng.permutation(80)
    return {"images": images[order].astype(np.float32), "labels": labels[order]}


def build(scale=1):
    return EmbeddingNet(4 * scale**2)


def train(model, data, steps):
    images = torch.from_numpy(data["images"])
    labels = torch.from_numpy(data["labels"])
    criterion = TripletLoss(margin=0.5)
    builtin = nn.TripletMarginLoss(margin=0.5, p=2)
    cosine = nn.CosineEmbeddingLoss(margin=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    history = {"loss": [], "builtin": [], "cosine": [], "accuracy": []}
    for step in range(steps):
        start = step * 20 % len(images)
        batch = images[start : start + 20]
        target = labels[start : start + 20]
        embeddings = model(batch)
        with torch.no_grad():
            distances = pdist(embeddings)
            same = target.unsqueeze(0) == target.unsqueeze(1)
            same.fill_diagonal_(False)
            anchors, positives = torch.where(same)
            masked = distances[anchors].clone()
            masked[target[anchors].unsqueeze(1) == target.unsqueeze(0)] = float("inf")
            negatives = masked.argmin(dim=1)
        loss = criterion(embeddings[anchors], embeddings[positives], embeddings[negatives])
        other = builtin(embeddings[anchors], embeddings[positives], embeddings[negatives])
        y = torch.ones(len(anchors)).to(batch.dtype)
        y[::2] = -1
        angle = cosine(embeddings[anchors], embeddings[negatives], y)
        optimizer.zero_grad()
        (loss + 0.5 * other + 0.1 * angle).backward()
        optimizer.step()
        history["loss"].append(loss.item())
        history["builtin"].append(other.item())
        history["cosine"].append(angle.item())
    model.eval()
    with torch.no_grad():
        embeddings = model.get_embedding(images)
        distances = torch.cdist(embeddings, embeddings)
        distances.fill_diagonal_(float("inf"))
        nearest = distances.argmin(1)
        history["accuracy"].append((labels[nearest] == labels).float().mean().item())
    return history
