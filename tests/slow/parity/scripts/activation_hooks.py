"""Hooks that record activations and gradients; clipped gradients; Grad-CAM (Selvaraju et al. 2016)."""

from collections import OrderedDict, defaultdict
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Hook:
    def __init__(self, module, backward=False):
        if not backward:
            self.hook = module.register_forward_hook(self.hook_fn)
        else:
            self.hook = module.register_full_backward_hook(self.hook_fn)

    def hook_fn(self, module, input, output):
        self.input = input
        self.output = output

    def close(self):
        self.hook.remove()


def make_data(rng, scale=1):
    labels = rng.integers(0, 4, 64)
    images = rng.normal(size=(4, 2, 8, 8))[labels] + 0.5 * rng.normal(size=(64, 2, 8, 8))
    return {"images": images.astype(np.float32), "labels": labels}


def build(scale=1):
    width = 4 * scale**2
    return nn.Sequential(
        OrderedDict(
            [
                (
                    "features",
                    nn.Sequential(nn.Conv2d(2, width, 3, padding=1), nn.GroupNorm(2, width), nn.ELU()),
                ),
                ("down", nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, groups=2)),
                ("relu", nn.ReLU()),
                ("pool", nn.AdaptiveAvgPool2d(1)),
                ("flatten", nn.Flatten()),
                ("head", nn.Linear(2 * width, 4)),
            ]
        )
    )


def train(model, data, steps):
    images = torch.from_numpy(data["images"])
    labels = torch.from_numpy(data["labels"])
    activations = defaultdict(list)

    def save_activation(name, mod, inp, out):
        activations[name].append(out.detach().cpu().abs().mean().item())

    handles = []
    for name, m in model.named_modules():
        if type(m) in (nn.Conv2d, nn.Linear):
            handles.append(m.register_forward_hook(partial(save_activation, name)))
    shift = model.head.register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    norms = []
    for p in model.parameters():
        p.register_hook(lambda grad: torch.clamp(grad, -0.05, 0.05))
    model.head.weight.register_hook(lambda grad: norms.append(grad.norm().item()))
    backward = Hook(model.down, backward=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    history = {"loss": [], "cam": [], "through": []}
    for step in range(steps):
        rows = torch.arange(step * 16, step * 16 + 16) % len(images)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        history["loss"].append(loss.item())
        history["through"].append(backward.output[0].abs().sum().item())
    history["norms"] = norms
    history["activations"] = [value for name in sorted(activations) for value in activations[name]]
    for handle in handles:
        handle.remove()
    shift.remove()
    backward.close()
    assert model.head.training and len(activations) == 3

    hook = Hook(model.relu)
    image = images[:3].clone().requires_grad_()
    scores = model(image)
    hook.output.retain_grad()
    scores[torch.arange(3), scores.argmax(dim=-1)].sum().backward()
    weights = hook.output.grad.mean(dim=(2, 3), keepdim=True)
    cam = F.relu((weights * hook.output).sum(dim=1, keepdim=True))
    cam = F.interpolate(cam, size=images.shape[2:], mode="bilinear", align_corners=False)
    saliency, _ = image.grad.data.abs().max(dim=1)
    history["cam"] += cam.flatten().tolist() + saliency.flatten().tolist()
    return history
