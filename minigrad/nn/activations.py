"""Activation functions as modules; the functions' docstrings state the derivatives."""

from __future__ import annotations

from . import functional as F
from .function_module import FunctionModule

__all__ = ["GELU", "LogSigmoid", "LogSoftmax", "ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh"]


class ReLU(FunctionModule, function=F.relu):
    """max(x, 0)."""


class GELU(FunctionModule, function=F.gelu):
    """x Phi(x); `approximate` is "none" or "tanh" (Hendrycks and Gimpel 2016)."""


class SiLU(FunctionModule, function=F.silu):
    """x sigmoid(x), also called swish."""


class Sigmoid(FunctionModule, function=F.sigmoid):
    """1 / (1 + exp(-x))."""


class LogSigmoid(FunctionModule, function=F.logsigmoid):
    """log(sigmoid(x))."""


class Tanh(FunctionModule, function=F.tanh):
    """tanh(x)."""


# `dim` is the last axis by default; PyTorch guesses one from the number of axes, and warns.


class Softmax(FunctionModule, function=F.softmax, settings="dim"):
    """exp(x) / sum(exp(x)) along `dim`."""


class LogSoftmax(FunctionModule, function=F.log_softmax, settings="dim"):
    """log(softmax(x)) along `dim`."""
