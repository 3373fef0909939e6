"""A polynomial fitted with derivatives by hand, by autograd, by layers, and by a module of one's own."""

import math

import numpy as np
import torch
import torch.nn as nn


class Polynomial3(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(()))
        self.b = nn.Parameter(torch.randn(()))
        self.c = nn.Parameter(torch.randn(()))
        self.d = nn.Parameter(torch.randn(()))

    def forward(self, x):
        return self.a + self.b * x + self.c * x**2 + self.d * x**3

    def string(self):
        return f"y = {self.a.item()} + {self.b.item()} x + {self.c.item()} x^2 + {self.d.item()} x^3"


def make_data(rng, scale=1):
    return {"start": rng.normal(size=4), "x": np.linspace(-math.pi, math.pi, 200 * scale)}


def build(scale=1):
    return nn.ModuleDict({"own": Polynomial3(), "nn": nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))})


def train(models, data, steps):
    x = torch.tensor(data["x"])
    y = torch.sin(x)
    history = {"loss": [], "autograd": [], "nn": [], "own": []}

    # with derivatives by hand
    a, b, c, d = (torch.tensor(v, dtype=x.dtype) for v in data["start"])
    learning_rate = 1e-6
    for _ in range(steps):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum().item()
        history["loss"].append(loss)
        grad_y_pred = 2.0 * (y_pred - y)
        grad_a = grad_y_pred.sum()
        grad_b = (grad_y_pred * x).sum()
        grad_c = (grad_y_pred * x**2).sum()
        grad_d = (grad_y_pred * x**3).sum()
        a -= learning_rate * grad_a
        b -= learning_rate * grad_b
        c -= learning_rate * grad_c
        d -= learning_rate * grad_d

    # with autograd
    a, b, c, d = (torch.tensor(v, dtype=x.dtype, requires_grad=True) for v in data["start"])
    for _ in range(steps):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum()
        history["autograd"].append(loss.item())
        loss.backward()
        with torch.no_grad():
            a -= learning_rate * a.grad
            b -= learning_rate * b.grad
            c -= learning_rate * c.grad
            d -= learning_rate * d.grad
            a.grad = None
            b.grad.zero_()
            c.grad.data.zero_()
            d.grad = None

    # with nn, and momentum by hand
    p = torch.tensor([1, 2, 3])
    xx = x.unsqueeze(-1).pow(p)
    model = models["nn"]
    loss_fn = nn.MSELoss(reduction="sum")
    velocity = [torch.zeros_like(param) for param in model.parameters()]
    for _ in range(steps):
        loss = loss_fn(model(xx), y)
        history["nn"].append(loss.item())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for v, param in zip(velocity, model.parameters()):
                v.mul_(0.5).add_(param.grad)
                param -= learning_rate * v

    # an own module, and an optimizer
    model = models["own"]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    total = 0
    for _ in range(steps):
        loss = loss_fn(model(x), y)
        total += loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["own"].append(loss.item())
    history["total"] = [total.item(), float(total.detach())]
    assert model.string().startswith("y = ")
    return history
