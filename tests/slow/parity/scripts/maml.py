"""Model-agnostic meta-learning (Finn et al. 2017) on sines: gradients through steps of gradient descent."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.vars = nn.ParameterList()
        for fan_in, fan_out in [(1, width), (width, width), (width, 1)]:
            w = nn.Parameter(torch.ones(fan_out, fan_in))
            torch.nn.init.kaiming_normal_(w)
            self.vars.append(w)
            self.vars.append(nn.Parameter(torch.zeros(fan_out)))

    def forward(self, x, vars=None):
        if vars is None:
            vars = self.vars
        x = torch.tanh(F.linear(x, vars[0], vars[1]))
        x = torch.tanh(F.linear(x, vars[2], vars[3]))
        return F.linear(x, vars[4], vars[5])


def make_data(rng, scale=1):
    amplitude = rng.uniform(0.5, 2, (100, 1, 1))
    phase = rng.uniform(0, np.pi, (100, 1, 1))
    x = rng.uniform(-3, 3, (100, 20, 1))
    return {"x": x.astype(np.float32), "y": (amplitude * np.sin(x + phase)).astype(np.float32)}


def build(scale=1):
    return Net(16 * scale**2)


def train(net, data, steps):
    update_lr = 0.02
    update_step = 2
    task_num = 3
    meta_optim = torch.optim.Adam(net.parameters(), lr=1e-2)
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    history = {"loss": [], "before": []}
    for step in range(steps):
        losses_q = [0 for _ in range(update_step + 1)]
        for i in range(task_num):
            task = (step * task_num + i) % len(x)
            x_spt = x[task, :10]
            y_spt = y[task, :10]
            x_qry = x[task, 10:]
            y_qry = y[task, 10:]
            fast_weights = list(net.parameters())
            with torch.no_grad():
                losses_q[0] += F.mse_loss(net(x_qry), y_qry)
            for k in range(update_step):
                loss = F.mse_loss(net(x_spt, fast_weights), y_spt)
                grad = torch.autograd.grad(loss, fast_weights, create_graph=True)
                fast_weights = list(map(lambda p: p[1] - update_lr * p[0], zip(grad, fast_weights)))
                losses_q[k + 1] += F.mse_loss(net(x_qry, fast_weights), y_qry)
        loss_q = losses_q[-1] / task_num
        meta_optim.zero_grad()
        loss_q.backward()
        meta_optim.step()
        history["loss"].append(loss_q.item())
        history["before"].append(losses_q[0].item() / task_num)
    return history
