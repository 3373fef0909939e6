"""A variational autoencoder (Kingma and Welling 2013): reparameterisation, a divergence in closed form."""

import numpy as np
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, inputs=36, hidden=24, latent=4):
        super(VAE, self).__init__()
        self.inputs = inputs
        self.fc1 = nn.Linear(inputs, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, inputs)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, self.inputs))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, recon_x.size(1)), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def make_data(rng, scale=1):
    """Images of one bright row and one bright column."""
    images = np.zeros((64, 1, 6 * scale, 6 * scale), np.float32)
    for image in images:
        image[0, rng.integers(6 * scale)] = 0.9
        image[0, :, rng.integers(6 * scale)] = 0.6
    return {"images": images}


def build(scale=1):
    return VAE(36 * scale**2, 24 * scale**2)


def train(model, data, steps):
    images = torch.from_numpy(data["images"])
    train_loader = torch.utils.data.DataLoader(images, batch_size=16, shuffle=True)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    history = {"loss": [], "sample": []}
    while len(history["loss"]) < steps:
        model.train()
        train_loss = 0
        for _batch_idx, batch in enumerate(train_loader):
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(batch)
            loss = loss_function(recon_batch, batch, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
            history["loss"].append(loss.item() / len(batch))
    model.eval()
    with torch.no_grad():
        sample = torch.randn(3, 4).to(images.dtype)
        history["sample"] += model.decode(sample).cpu().mean(dim=1).tolist()
        recon, *_ = model(images[:8])
        comparison = torch.cat([images[:8], recon.view(8, *images.shape[1:])])
        history["sample"].append(comparison.std().item())
    return history
