"""A residual network for small images (He et al. 2015): batch norm, strides, shortcuts, SGD with momentum."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader, TensorDataset


def conv3x3(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = conv3x3(in_planes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(identity)
        out = self.relu(out)
        return out


class ResNet(nn.Module):
    def __init__(self, block, num_blocks, width=8, num_classes=10):
        super().__init__()
        self.in_planes = width
        self.conv1 = conv3x3(3, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._make_layer(block, width, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, 2 * width, num_blocks[1], stride=2)
        self.layer3 = self._make_layer(block, 4 * width, num_blocks[2], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.linear = nn.Linear(4 * width * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, num_blocks, stride):
        strides = [stride] + [1] * (num_blocks - 1)
        layers = []
        for stride in strides:
            layers.append(block(self.in_planes, planes, stride))
            self.in_planes = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer1(out)
        out = self.layer2(out)
        out = self.layer3(out)
        out = self.avgpool(out)
        out = torch.flatten(out, 1)
        return self.linear(out)


def make_data(rng, scale=1):
    """Images whose class is a pattern under noise."""
    size = 8 * scale
    n = 128
    labels = rng.integers(0, 10, n)
    images = rng.normal(size=(10, 3, size, size))[labels] + rng.normal(size=(n, 3, size, size))
    return {"images": images.astype(np.float32), "labels": labels}


def build(scale=1):
    return ResNet(BasicBlock, [1, 1, 1], width=4 * scale**2)


def train(net, data, steps):
    images = torch.from_numpy(data["images"])
    labels = torch.from_numpy(data["labels"])
    trainset = TensorDataset(images[:96], labels[:96])
    testset = TensorDataset(images[96:], labels[96:])
    trainloader = DataLoader(trainset, batch_size=16, shuffle=True, drop_last=True)
    testloader = DataLoader(testset, batch_size=16, shuffle=False)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    epochs = -(-steps // len(trainloader))
    scheduler = MultiStepLR(optimizer, milestones=[epochs // 2, epochs * 3 // 4], gamma=0.1)
    history = {"loss": [], "lr": [], "test_loss": [], "accuracy": []}
    for _epoch in range(epochs):
        net.train()
        for inputs, targets in trainloader:
            optimizer.zero_grad()
            outputs = net(inputs)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
            history["loss"].append(loss.item())
        history["lr"].append(scheduler.get_last_lr()[0])
        scheduler.step()
        net.eval()
        test_loss = 0
        correct = 0
        total = 0
        with torch.no_grad():
            for inputs, targets in testloader:
                outputs = net(inputs)
                test_loss += F.cross_entropy(outputs, targets, reduction="sum").item()
                _, predicted = outputs.max(1)
                total += targets.size(0)
                correct += predicted.eq(targets).sum().item()
        history["test_loss"].append(test_loss / total)
        history["accuracy"].append(100.0 * correct / total)
    history["batches"] = [int(net.bn1.num_batches_tracked)]
    history["running_mean"] = net.bn1.running_mean.tolist()
    return history
