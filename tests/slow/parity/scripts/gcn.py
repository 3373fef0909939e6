"""Graph convolution and attention (Kipf and Welling 2016, Velickovic et al. 2017): sums over edges."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.zeros(in_features, out_features))
        self.bias = Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight.data, gain=1.414)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        return torch.mm(adj, support) + self.bias

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(tuple(self.weight.shape)) + ")"


class GraphAttention(nn.Module):
    def __init__(self, in_features, out_features, heads):
        super().__init__()
        self.heads = heads
        self.out = out_features
        self.lin = nn.Linear(in_features, heads * out_features, bias=False)
        self.att = Parameter(torch.empty(1, heads, 2 * out_features))
        nn.init.normal_(self.att, std=0.1)

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = edge_index
        h = self.lin(x).view(n, self.heads, self.out)
        alpha = (torch.cat([h[src], h[dst]], dim=-1) * self.att).sum(dim=-1)
        alpha = F.leaky_relu(alpha, 0.2)
        highest = torch.full((n, self.heads), float("-inf"), dtype=x.dtype)
        highest = highest.scatter_reduce(0, dst[:, None].expand_as(alpha), alpha.detach(), "amax")
        alpha = (alpha - highest[dst]).exp()
        total = torch.zeros(n, self.heads, dtype=x.dtype).index_add_(0, dst, alpha)
        alpha = alpha / (total[dst] + 1e-16)
        out = torch.zeros(n, self.heads, self.out, dtype=x.dtype)
        out = out.index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self, nfeat, nhid, nclass):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gat = GraphAttention(nhid, nhid // 2, heads=2)
        self.gc2 = GraphConvolution(nhid, nclass)

    def forward(self, x, adj, edge_index):
        x = F.relu(self.gc1(x, adj))
        x = F.elu(self.gat(x, edge_index))
        x = F.dropout(x, 0.0, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


def make_data(rng, scale=1):
    n = 40 * scale
    labels = rng.integers(0, 3, n)
    near = labels[:, None] == labels[None]
    adj = rng.random((n, n)) < np.where(near, 0.3, 0.03)
    adj = adj | adj.T | np.eye(n, dtype=bool)
    features = np.eye(3)[labels] + rng.normal(size=(n, 3))
    return {"adj": adj.astype(np.float32), "features": features.astype(np.float32), "labels": labels}


def build(scale=1):
    return Net(3, 16 * scale**2, 3)


def train(model, data, steps):
    adj = torch.from_numpy(data["adj"])
    features = torch.FloatTensor(data["features"]).to(torch.from_numpy(data["adj"]).dtype)
    labels = torch.LongTensor(data["labels"])
    edge_index = adj.nonzero().t().contiguous()
    degree = adj.sum(1)
    r_inv = torch.pow(degree, -0.5)
    r_inv[torch.isinf(r_inv)] = 0.0
    adj = torch.diag(r_inv) @ adj @ torch.diag(r_inv)
    idx_train = torch.arange(0, len(labels), 2)
    idx_val = torch.from_numpy(np.arange(1, len(labels), 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    history = {"loss": [], "val": [], "accuracy": []}
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj, edge_index)
        loss_train = F.nll_loss(output[idx_train], labels[idx_train])
        acc_train = accuracy(output[idx_train], labels[idx_train])
        loss_train.backward()
        optimizer.step()
        model.eval()
        output = model(features, adj, edge_index)
        history["loss"].append(loss_train.item())
        history["val"].append(F.nll_loss(output[idx_val], labels[idx_val]).item())
        history["accuracy"].append(acc_train.item())
    return history
