"""An engine in a hundred lines: arrays that remember how they were computed, and the walk back.

Lesson 3 builds it for numbers, and trains a network with it. The names are minigrad's, the numbers are
float64, and vectors in a matrix product are matrices of one row or column.
"""

from itertools import count
from operator import attrgetter

import numpy as np

# ---------------------------------------------------------------- an operation


def differentiable(rule):
    """Turn a rule for arrays into a function of tensors that records."""
    arity = rule.__code__.co_posonlyargcount  # so many arrays come first; settings follow

    def call(*inputs, **settings):
        edges = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs[:arity]]
        value, gradients = rule(*[x.array for x in edges], *inputs[arity:], **settings)
        return Tensor(value, edges, gradients)

    call.rule = rule
    return call


# ---------------------------------------------------------------- rules: a value, and gradient functions


@differentiable
def add(x, y, /):
    return x + y, (lambda g: g, lambda g: g)


@differentiable
def subtract(x, y, /):
    return x - y, (lambda g: g, lambda g: -g)


@differentiable
def multiply(x, y, /):
    return x * y, (lambda g: g * y, lambda g: g * x)


@differentiable
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: -g * x / y**2)


@differentiable
def power(x, /, n):
    return x**n, (lambda g: g * n * x ** (n - 1),)


@differentiable
def exp(x, /):
    y = np.exp(x)
    return y, (lambda g: g * y,)


@differentiable
def log(x, /):
    return np.log(x), (lambda g: g / x,)


@differentiable
def relu(x, /):
    return np.maximum(x, 0), (lambda g: g * (x > 0),)


@differentiable
def matmul(x, y, /):
    return x @ y, (lambda g: g @ y.swapaxes(-1, -2), lambda g: x.swapaxes(-1, -2) @ g)


@differentiable
def sum(x, /, axis=None, keepdims=False):
    kept = x.sum(axis, keepdims=True).shape
    return x.sum(axis, keepdims=keepdims), (lambda g: np.broadcast_to(g.reshape(kept), x.shape),)


@differentiable
def reshape(x, /, shape):
    return x.reshape(shape), (lambda g: g.reshape(x.shape),)


@differentiable
def permute(x, /, axes):
    return x.transpose(axes), (lambda g: g.transpose(np.argsort(axes)),)


@differentiable
def getitem(x, /, index):
    def scatter(g):
        total = np.zeros_like(x)
        np.add.at(total, index, g)  # an element that was taken twice gets the sum
        return total

    return x[index], (scatter,)


def mean(x, axis=None, keepdims=False):
    """Written with other operations, so it needs no rule."""
    total = x.sum(axis, keepdims)
    return total / (x.array.size / total.array.size)


# ---------------------------------------------------------------- a tensor, and the walk back


class Tensor:
    """An array, its gradient, the tensors it was computed from, and a gradient function for each of them."""

    __array_ufunc__ = None  # array + tensor is left to the tensor

    def __init__(self, array, edges=(), gradients=()):
        self.array = np.asarray(array, dtype=float)
        self.grad = None
        self.edges = edges
        self.gradients = gradients
        self.number = next(numbers)

    def backward(self):
        """Add the derivative of this number to the `grad` of all leaves behind it."""
        totals = {self: np.ones(self.array.shape)}
        for tensor in reversed(behind(self)):
            g = totals.pop(tensor)  # all its consumers have been visited: it is complete
            if not tensor.edges:
                tensor.grad = g + (0 if tensor.grad is None else tensor.grad)
            for edge, gradient in zip(tensor.edges, tensor.gradients, strict=True):
                part = unbroadcast(gradient(g), edge.array.shape)
                totals[edge] = totals[edge] + part if edge in totals else part

    __add__ = __radd__ = add
    __mul__ = __rmul__ = multiply
    __sub__ = subtract
    __truediv__ = divide
    __pow__ = power
    __matmul__ = matmul
    __getitem__ = getitem
    __neg__ = lambda x: 0 - x
    __rsub__ = lambda y, x: subtract(x, y)
    __rtruediv__ = lambda y, x: divide(x, y)
    exp, log, relu, sum, mean, reshape, permute = exp, log, relu, sum, mean, reshape, permute


numbers = count()  # tensors are numbered in the order in which they are made


def behind(end):
    """All tensors that `end` was computed from, and itself, in order of creation."""
    stack = [end]
    seen = {end}
    while stack:
        new = set(stack.pop().edges) - seen
        stack.extend(new)
        seen |= new
    return sorted(seen, key=attrgetter("number"))


def unbroadcast(g, shape):
    """Sum `g` over the axes along which an input of `shape` was repeated."""
    extra = g.ndim - len(shape)
    repeated = [extra + i for i, n in enumerate(shape) if n == 1]
    return g.sum(axis=(*range(extra), *repeated), keepdims=True).reshape(shape)
