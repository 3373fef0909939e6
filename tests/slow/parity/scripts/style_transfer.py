"""Style transfer (Gatys et al. 2015): the pixels of an image are optimised, through layers with losses."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class ContentLoss(nn.Module):
    def __init__(self, target):
        super(ContentLoss, self).__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super(StyleLoss, self).__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        G = gram_matrix(input)
        self.loss = F.mse_loss(G, self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super(Normalization, self).__init__()
        self.mean = mean.clone().detach().view(-1, 1, 1)
        self.std = std.clone().detach().view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


def total_variation(img):
    across = torch.abs(img[:, :, :, :-1] - img[:, :, :, 1:]).mean()
    down = torch.abs(img[:, :, :-1, :] - img[:, :, 1:, :]).mean()
    return across + down


def get_style_model_and_losses(cnn, style_img, content_img):
    normalization = Normalization(torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))
    content_losses = []
    style_losses = []
    model = nn.Sequential(normalization)
    i = 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = "conv_{}".format(i)
        elif isinstance(layer, nn.ReLU):
            name = "relu_{}".format(i)
            layer = nn.ReLU(inplace=False)
        elif isinstance(layer, nn.MaxPool2d):
            name = "pool_{}".format(i)
        elif isinstance(layer, nn.BatchNorm2d):
            name = "bn_{}".format(i)
        else:
            raise RuntimeError("Unrecognized layer: {}".format(layer.__class__.__name__))
        model.add_module(name, layer)
        if name == "conv_2":
            content_loss = ContentLoss(model(content_img).detach())
            model.add_module("content_loss_{}".format(i), content_loss)
            content_losses.append(content_loss)
        if name.startswith("conv"):
            style_loss = StyleLoss(model(style_img).detach())
            model.add_module("style_loss_{}".format(i), style_loss)
            style_losses.append(style_loss)
    for i in range(len(model) - 1, -1, -1):
        if isinstance(model[i], ContentLoss) or isinstance(model[i], StyleLoss):
            break
    model = model[: (i + 1)]
    return model, style_losses, content_losses


def make_data(rng, scale=1):
    y, x = np.mgrid[0 : 12 * scale, 0 : 12 * scale]
    content = np.exp(-((y - 6 * scale) ** 2 + (x - 6 * scale) ** 2) / (20 * scale**2))
    style = 0.5 + 0.5 * np.sin(x + y)
    colours = rng.random((2, 3, 1, 1))
    return {
        "content": (colours[0] * content)[None].astype(np.float32),
        "style": (colours[1] * style)[None].astype(np.float32),
    }


def build(scale=1):
    width = 8 * scale
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(inplace=True),
    )


def train(cnn, data, steps, style_weight=1e4, content_weight=1):
    content_img = torch.from_numpy(data["content"])
    style_img = torch.from_numpy(data["style"])
    cnn.eval()
    model, style_losses, content_losses = get_style_model_and_losses(cnn, style_img, content_img)
    input_img = content_img.clone()
    input_img.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = optim.LBFGS([input_img], lr=0.1, max_iter=8)
    history = {"loss": [], "style": [], "content": [], "image": []}
    run = [0]
    while run[0] < steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = 0
            content_score = 0
            for sl in style_losses:
                style_score += sl.loss
            for cl in content_losses:
                content_score += cl.loss
            style_score *= style_weight
            content_score *= content_weight
            loss = style_score + content_score + 0.01 * total_variation(input_img)
            loss.backward()
            run[0] += 1
            history["style"].append(style_score.item())
            history["content"].append(content_score.item())
            history["loss"].append(loss.item())
            return style_score + content_score

        optimizer.step(closure)
    with torch.no_grad():
        input_img.clamp_(0, 1)
    history["image"] += input_img.mean(dim=(0, 2)).flatten().tolist()
    return history
