"""The walk back through a recorded computation.

Each `Value` remembers the values that it was computed from, and for each of them a rule that turns its own
gradient into a contribution to theirs. `backward(result)` must leave d result / d value in the `grad` of
every value that `result` depends on.

Two things are easy to get wrong. A value may be used twice (x * x): its contributions add up. And a value may
pass its gradient on only when it is complete: after all values that use it.
"""

import math


class Value:
    """A number that remembers how it was computed."""

    def __init__(self, data, inputs=(), rules=()):
        self.data = data
        self.inputs = inputs
        self.rules = rules  # rules[i](g) is the contribution to the gradient of inputs[i]
        self.grad = 0.0

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), (lambda g: g, lambda g: g))

    def __mul__(self, other):
        rules = (lambda g: g * other.data, lambda g: g * self.data)
        return Value(self.data * other.data, (self, other), rules)

    def tanh(self):
        y = math.tanh(self.data)
        return Value(y, (self,), (lambda g: g * (1 - y * y),))


def backward(result):
    """Set `grad` of `result` and of all values that it depends on."""
    # BLANK: find an order with every value after its inputs; go through it backward, and apply the rules
    order = []
    seen = set()

    def visit(value):
        if value not in seen:
            seen.add(value)
            for each in value.inputs:
                visit(each)
            order.append(value)

    visit(result)
    result.grad = 1.0
    for value in reversed(order):
        for each, rule in zip(value.inputs, value.rules, strict=True):
            each.grad += rule(value.grad)
    # END
