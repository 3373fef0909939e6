"""Adversarial training (Goodfellow et al. 2014, Madry et al. 2017): steps along an input's gradient."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self, width):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, width, 3, 1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(2 * width * 9, 32)
        self.fc2 = nn.Linear(32, 5)

    def forward(self, x):
        x = self.conv1(x)
        x = F.relu(x)
        x = self.conv2(x)
        x = F.relu(x)
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.fc1(x)
        x = F.relu(x)
        x = self.fc2(x)
        return F.log_softmax(x, dim=1)


def fgsm_attack(image, epsilon, data_grad):
    sign_data_grad = data_grad.sign()
    perturbed_image = image + epsilon * sign_data_grad
    return torch.clamp(perturbed_image, 0, 1)


def pgd_attack(model, images, labels, eps=0.1, alpha=0.03, iters=3):
    ori_images = images.data
    for _ in range(iters):
        images.requires_grad = True
        outputs = model(images)
        model.zero_grad()
        cost = F.nll_loss(outputs, labels)
        cost.backward()
        adv_images = images + alpha * images.grad.sign()
        eta = torch.clamp(adv_images - ori_images, min=-eps, max=eps)
        images = torch.clamp(ori_images + eta, min=0, max=1).detach_()
    return images


def make_data(rng, scale=1):
    labels = rng.integers(0, 5, 100)
    images = 0.5 + 0.3 * rng.random((5, 1, 10, 10))[labels] - 0.2 * rng.random((100, 1, 10, 10))
    return {"images": images.clip(0, 1).astype(np.float32), "labels": labels}


def build(scale=1):
    return Net(4 * scale**2)


def train(model, data, steps):
    images = torch.tensor(data["images"])
    labels = torch.tensor(data["labels"])
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
    history = {"loss": [], "attacked": [], "accuracy": []}
    for step in range(steps):
        rows = slice(step * 20 % 100, step * 20 % 100 + 20)
        batch = images[rows].clone()
        target = labels[rows]
        model.train()
        adversarial = pgd_attack(model, batch, target)
        optimizer.zero_grad()
        loss = F.nll_loss(model(adversarial), target)
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            scheduler.step()
        history["loss"].append(loss.item())

    model.eval()
    for epsilon in [0, 0.05, 0.1, 0.15]:
        correct = 0
        for image, label in zip(images[:20], labels[:20]):
            data = image.unsqueeze(0).clone()
            target = label.unsqueeze(0)
            data.requires_grad = True
            output = model(data)
            init_pred = output.max(1, keepdim=True)[1]
            if init_pred.item() != target.item():
                continue
            loss = F.nll_loss(output, target)
            model.zero_grad()
            loss.backward()
            data_grad = data.grad.data
            perturbed_data = fgsm_attack(data, epsilon, data_grad)
            output = model(perturbed_data)
            history["attacked"].append(output.max().item())
            final_pred = output.max(1, keepdim=True)[1]
            if final_pred.item() == target.item():
                correct += 1
        history["accuracy"].append(correct / 20)
    return history
