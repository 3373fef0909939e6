"""A learning-rate range test (Smith 2015): a schedule of one's own, smoothed losses, states put back."""

import copy
import math

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, random_split


class Curve(Dataset):
    def __init__(self, x, y):
        self.x, self.y = torch.as_tensor(x), torch.as_tensor(y)

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, idx):
        return {"x": self.x[idx], "y": self.y[idx]}


class ExponentialLR(LRScheduler):
    def __init__(self, optimizer, end_lr, num_iter, last_epoch=-1):
        self.end_lr = end_lr
        self.num_iter = num_iter
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        r = self.last_epoch / (self.num_iter - 1)
        return [base_lr * (self.end_lr / base_lr) ** r for base_lr in self.base_lrs]


class LRFinder:
    def __init__(self, model, optimizer, criterion):
        self.model = model
        self.optimizer = optimizer
        self.criterion = criterion
        self.history = {"lr": [], "loss": []}
        self.best_loss = None
        self.model_state = copy.deepcopy(model.state_dict())
        self.optimizer_state = copy.deepcopy(optimizer.state_dict())

    def reset(self):
        self.model.load_state_dict(self.model_state)
        self.optimizer.load_state_dict(self.optimizer_state)

    def range_test(self, loader, end_lr, num_iter, smooth_f=0.05, diverge_th=50):
        lr_schedule = ExponentialLR(self.optimizer, end_lr, num_iter)
        iterator = iter(loader)
        for iteration in range(num_iter):
            try:
                batch = next(iterator)
            except StopIteration:
                iterator = iter(loader)
                batch = next(iterator)
            loss = self._train_batch(batch)
            self.history["lr"].append(lr_schedule.get_last_lr()[0])
            lr_schedule.step()
            if iteration == 0:
                self.best_loss = loss
            else:
                loss = smooth_f * loss + (1 - smooth_f) * self.history["loss"][-1]
                if loss < self.best_loss:
                    self.best_loss = loss
            self.history["loss"].append(loss)
            if loss > diverge_th * self.best_loss:
                break

    def _train_batch(self, batch):
        self.model.train()
        self.optimizer.zero_grad()
        outputs = self.model(batch["x"])
        loss = self.criterion(outputs, batch["y"])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def make_data(rng, scale=1):
    x = rng.uniform(-2, 2, (160, 1)).astype(np.float32)
    return {"x": x, "y": np.sin(2 * x)}


def build(scale=1):
    width = 32 * scale**2
    return nn.Sequential(
        nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
    )


def train(model, data, steps):
    dataset = Curve(data["x"], data["y"])
    train_set, val_set = random_split(dataset, [128, 32])
    loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=32)
    criterion = nn.SmoothL1Loss(beta=0.5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=1e-2)
    finder = LRFinder(model, optimizer, criterion)
    finder.range_test(loader, end_lr=1, num_iter=steps)
    finder.reset()
    history = {"loss": list(finder.history["loss"]), "lr": finder.history["lr"], "val": []}
    best_lr = finder.history["lr"][min(range(steps), key=lambda i: finder.history["loss"][i])]
    optimizer = torch.optim.AdamW(model.parameters(), lr=best_lr / 10)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=best_lr, total_steps=steps)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
    seen = 0
    while seen < steps:
        for batch in loader:
            if seen == steps:
                break
            loss = criterion(model(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            history["loss"].append(loss.item())
            history["lr"].append(optimizer.param_groups[0]["lr"])
            seen += 1
        model.eval()
        with torch.no_grad():
            val_loss = sum(criterion(model(b["x"]), b["y"]).item() for b in val_loader) / len(val_loader)
        history["val"].append(math.sqrt(val_loss))
    for _ in range(4):
        plateau.step(1.0)
    history["lr"].append(optimizer.param_groups[0]["lr"])
    return history
