"""Sines as activations (Sitzmann et al. 2020): an image is fitted by its Laplacian, a second derivative."""

import numpy as np
import torch
from torch import nn


class SineLayer(nn.Module):
    def __init__(self, in_features, out_features, bias=True, is_first=False, omega_0=30):
        super().__init__()
        self.omega_0 = omega_0
        self.is_first = is_first
        self.in_features = in_features
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.init_weights()

    def init_weights(self):
        with torch.no_grad():
            if self.is_first:
                self.linear.weight.uniform_(-1 / self.in_features, 1 / self.in_features)
            else:
                self.linear.weight.uniform_(
                    -np.sqrt(6 / self.in_features) / self.omega_0,
                    np.sqrt(6 / self.in_features) / self.omega_0,
                )

    def forward(self, input):
        return torch.sin(self.omega_0 * self.linear(input))


class Siren(nn.Module):
    def __init__(self, in_features, hidden_features, hidden_layers, out_features, omega_0=5.0):
        super().__init__()
        self.net = []
        self.net.append(SineLayer(in_features, hidden_features, is_first=True, omega_0=omega_0))
        for _ in range(hidden_layers):
            self.net.append(SineLayer(hidden_features, hidden_features, omega_0=omega_0))
        final_linear = nn.Linear(hidden_features, out_features)
        with torch.no_grad():
            bound = np.sqrt(6 / hidden_features) / omega_0
            final_linear.weight.uniform_(-bound, bound)
        self.net.append(final_linear)
        self.net = nn.Sequential(*self.net)

    def forward(self, coords):
        coords = coords.clone().detach().requires_grad_(True)
        output = self.net(coords)
        return output, coords


def laplace(y, x):
    grad = gradient(y, x)
    return divergence(grad, x)


def divergence(y, x):
    div = 0.0
    for i in range(y.shape[-1]):
        div += torch.autograd.grad(y[..., i], x, torch.ones_like(y[..., i]), create_graph=True)[0][
            ..., i : i + 1
        ]
    return div


def gradient(y, x, grad_outputs=None):
    if grad_outputs is None:
        grad_outputs = torch.ones_like(y)
    return torch.autograd.grad(y, [x], grad_outputs=grad_outputs, create_graph=True)[0]


def get_mgrid(sidelen, dim=2):
    tensors = tuple(dim * [torch.linspace(-1, 1, steps=sidelen, dtype=torch.float64)])
    mgrid = torch.stack(torch.meshgrid(*tensors, indexing="ij"), dim=-1)
    return mgrid.reshape(-1, dim)


def make_data(rng, scale=1):
    axis = np.linspace(-1, 1, 10 * scale)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    return {"image": (np.sin(2 * x) * np.cos(3 * y)).reshape(-1, 1).astype(np.float32)}


def build(scale=1):
    return Siren(2, 16 * scale**2, 2, 1)


def train(img_siren, data, steps):
    ground_truth = torch.from_numpy(data["image"])
    side = int(len(ground_truth) ** 0.5)
    model_input = get_mgrid(side).to(ground_truth)
    optim = torch.optim.Adam(lr=1e-3, params=img_siren.parameters())
    history = {"loss": [], "laplace": [], "gradient": []}
    for _ in range(steps):
        model_output, coords = img_siren(model_input)
        img_laplacian = laplace(model_output, coords)
        img_grad = gradient(model_output, coords)
        loss = ((model_output - ground_truth) ** 2).mean()
        loss = loss + 1e-4 * ((img_laplacian + 13 * ground_truth) ** 2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        history["loss"].append(loss.item())
        history["laplace"].append(img_laplacian.abs().mean().item())
        history["gradient"].append(img_grad.norm(dim=-1).max().item())
    return history
