"""A Wasserstein GAN with a gradient penalty (Gulrajani et al. 2017): a derivative of a derivative."""

import numpy as np
import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.optim as optim

LAMBDA = 0.1
CRITIC_ITERS = 2
BATCH_SIZE = 16


class Generator(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, dim), nn.ReLU(True), nn.Linear(dim, dim), nn.ReLU(True), nn.Linear(dim, 2)
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, dim),
            nn.Softplus(),
            nn.LayerNorm(dim),
            nn.Linear(dim, dim),
            nn.Tanh(),
            nn.Linear(dim, 1),
        )

    def forward(self, inputs):
        return self.main(inputs).view(-1)


def calc_gradient_penalty(netD, real_data, fake_data):
    alpha = torch.rand(BATCH_SIZE, 1).to(real_data)
    alpha = alpha.expand(real_data.size())
    interpolates = alpha * real_data + ((1 - alpha) * fake_data)
    interpolates.requires_grad_(True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(
        outputs=disc_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones(disc_interpolates.size()).to(real_data),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


def make_data(rng, scale=1):
    """Eight clusters on a circle."""
    angles = rng.integers(0, 8, 512) * np.pi / 4
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.05 * rng.normal(size=(512, 2))
    return {"points": points.astype(np.float32)}


def build(scale=1):
    return nn.ModuleDict(
        {"generator": Generator(16 * scale**2), "discriminator": Discriminator(16 * scale**2)}
    )


def train(model, data, steps):
    netG, netD = model["generator"], model["discriminator"]
    optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))
    points = torch.tensor(data["points"])
    one = torch.tensor(1, dtype=points.dtype)
    mone = one * -1
    history = {"D_cost": [], "W": [], "G_cost": []}
    for iteration in range(steps):
        for p in netD.parameters():
            p.requires_grad = True
        for i in range(CRITIC_ITERS):
            start = ((iteration * CRITIC_ITERS + i) * BATCH_SIZE) % len(points)
            real_data = points[start : start + BATCH_SIZE]
            netD.zero_grad()
            D_real = netD(real_data)
            D_real = D_real.mean()
            D_real.backward(mone)
            noise = torch.randn(BATCH_SIZE, 2).to(points.dtype)
            fake = netG(noise).data
            D_fake = netD(fake)
            D_fake = D_fake.mean()
            D_fake.backward(one)
            gradient_penalty = calc_gradient_penalty(netD, real_data.data, fake.data)
            gradient_penalty.backward()
            D_cost = D_fake - D_real + gradient_penalty
            optimizerD.step()
        for p in netD.parameters():
            p.requires_grad = False
        netG.zero_grad()
        noise = torch.randn(BATCH_SIZE, 2).to(points.dtype)
        G = netD(netG(noise)).mean()
        G.backward(mone)
        optimizerG.step()
        history["D_cost"].append(D_cost.cpu().data.numpy().item())
        history["W"].append((D_real - D_fake).item())
        history["G_cost"].append(-G.item())
    return history
