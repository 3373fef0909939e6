"""A student taught by a moving average of itself (Tarvainen and Valpola 2017) and by a frozen net."""

import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, width),
            nn.BatchNorm1d(width),
            nn.SiLU(inplace=True),
            nn.Dropout(0.0),
            nn.Linear(width, 5),
        )

    def forward(self, x):
        return self.net(x)


def update_ema_variables(model, ema_model, alpha, global_step):
    alpha = min(1 - 1 / (global_step + 1), alpha)
    for ema_param, param in zip(ema_model.parameters(), model.parameters()):
        ema_param.data.mul_(alpha).add_(param.data, alpha=1 - alpha)
    for ema_buffer, buffer in zip(ema_model.buffers(), model.buffers()):
        ema_buffer.data.copy_(buffer.data)


def softmax_mse_loss(input_logits, target_logits):
    assert input_logits.size() == target_logits.size()
    input_softmax = F.softmax(input_logits, dim=1)
    target_softmax = F.softmax(target_logits, dim=1)
    return F.mse_loss(input_softmax, target_softmax, reduction="sum") / input_logits.size()[1]


def distillation(logits, teacher_logits, T=2.0):
    soft = F.log_softmax(logits / T, dim=-1)
    return (
        F.kl_div(soft, F.log_softmax(teacher_logits / T, dim=-1), reduction="batchmean", log_target=True)
        * T**2
    )


def make_data(rng, scale=1):
    labels = rng.integers(0, 5, 200)
    x = rng.normal(size=(5, 8))[labels] + 0.8 * rng.normal(size=(200, 8))
    labels = np.where(rng.random(200) < 0.3, labels, -1)  # most have none
    return {"x": x.astype(np.float32), "labels": labels}


def build(scale=1):
    return nn.ModuleDict({"student": MLP(32 * scale**2), "big": MLP(64 * scale**2)})


def train(model, data, steps):
    student, big = model["student"], model["big"]
    teacher = copy.deepcopy(student)
    for param in teacher.parameters():
        param.detach_()
    for param in big.parameters():
        param.requires_grad = False
    big.eval()
    class_criterion = nn.CrossEntropyLoss(ignore_index=-1, reduction="sum")
    optimizer = torch.optim.SGD(
        filter(lambda p: p.requires_grad, model.parameters()), lr=0.1, momentum=0.9, weight_decay=1e-4
    )
    x = torch.from_numpy(data["x"])
    labels = torch.from_numpy(data["labels"])
    history = {"loss": [], "consistency": [], "teacher": []}
    for step in range(steps):
        index = torch.randint(0, len(x), (20,))
        batch = x[index]
        target = labels[index]
        noisy = batch + torch.randn(batch.size()).to(batch.dtype) * 0.1
        student_logits = student(noisy)
        with torch.no_grad():
            teacher_logits = teacher(batch)
            soft = big(batch)
        class_loss = class_criterion(student_logits, target) / len(batch)
        weight = np.exp(-5.0 * (1 - min(step / 10, 1)) ** 2)
        consistency_loss = weight * softmax_mse_loss(student_logits, teacher_logits) / len(batch)
        loss = class_loss + consistency_loss + 0.1 * distillation(student_logits, soft)
        assert not (np.isnan(loss.item()) or loss.item() > 1e5), "Loss explosion: {}".format(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema_variables(student, teacher, 0.95, step)
        history["loss"].append(loss.item())
        history["consistency"].append(consistency_loss.item())
    teacher.eval()
    with torch.no_grad():
        probabilities = teacher(x[:5]).softmax(dim=1)
    history["teacher"] += probabilities.numpy().ravel().tolist()
    state = {"ema": teacher.state_dict(), "optimizer": optimizer.state_dict()}
    student.load_state_dict(state["ema"])
    return history
