"""The walk back through a recorded computation."""

import itertools
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..checking import Wrong, compare

LESSON = 3
REASONING = "derivation"
HINTS = (
    "d result / d result is 1: that is where the walk begins. Which value's gradient is complete next?",
    "Depth first: visit the inputs of a value before you append it to a list. Each value is visited once. "
    "The reversed list has each value after all that use it.",
    "For each value in the reversed list, and each of its inputs with its rule: "
    "input.grad += rule(value.grad).",
)
ADD = "A value that is used twice gets the sum of both contributions: use += for each of them."
ORDER = "A value's rules may run only after every value that uses it has added its contribution."


def check(answer: ModuleType) -> None:
    Value = answer.Value
    # one path
    x = Value(0.5)
    y = x.tanh()
    answer.backward(y)
    compare("the gradient of the result itself", y.grad, 1.0, advice="Set result.grad = 1 before the walk.")
    slope = 1 - math.tanh(0.5) ** 2
    compare("d tanh(x) / dx at 0.5", x.grad, slope, {"no gradient reaches x: it is still 0": 0.0})
    # a value used twice
    x = Value(3.0)
    answer.backward(x * x)
    mistakes = {"one of the two uses of x is lost: the second replaces the first": 3.0}
    compare("d (x x) / dx at 3", x.grad, 6.0, mistakes, ADD)
    _check_order(answer, Value)
    # a long chain of shared values: each is visited once
    x = Value(1.0)
    y = x
    for _ in range(16):
        y = y + y
    calls = [0]
    y.inputs[0].inputs[0].rules = tuple(_counted(rule, calls) for rule in y.inputs[0].inputs[0].rules)
    answer.backward(y)
    compare("d y / d x after 16 doublings", x.grad, 2.0**16, advice=ADD)
    if calls[0] > 2:
        raise Wrong(
            f"the rules of one value run {calls[0] // 2} times: it is visited once for each path to it",
            "Remember in a set which values you have seen; with many paths the time grows as 2^n.",
        )


def _check_order(answer: ModuleType, Value: Any) -> None:
    """Check (a + b) b + a with a = b b, for all orders of operands. a and then b must be visited last."""
    for order in itertools.product((False, True), repeat=3):
        b = Value(2.0)
        a = b * b
        s = a + b if order[0] else b + a
        y = s * b if order[1] else b * s
        top = y + a if order[2] else a + y  # a is used by the result and by s
        early = list(_early_gradients(top, b))
        same = "each rule gets the gradient of the result, not that of the value that the rule belongs to"
        mistakes = {same: _walked(b, _first_come(top, 0), passes_on=False)}
        answer.backward(top)
        if b.grad != 20.0 and b.grad in early:
            raise Wrong("a value passes its gradient on before it is complete", ORDER)
        compare("d ((b b + b) b + b b) / d b at 2", b.grad, 20.0, mistakes, ORDER)


def _early_gradients(result: Any, leaf: Any) -> Iterator[float]:
    """Yield the gradients of `leaf` by walks in wrong orders: breadth-first, depth-first, and preorder."""
    yield _walked(leaf, _first_come(result, 0))
    yield _walked(leaf, _first_come(result, -1))
    yield _walked(leaf, list(dict.fromkeys(_preorder(result))))


def _preorder(value: Any) -> Iterator[Any]:
    yield value
    for each in value.inputs:
        yield from _preorder(each)


def _first_come(result: Any, end: int) -> list[Any]:
    queue = [result]
    order: list[Any] = []
    while queue:
        value = queue.pop(end)
        if value not in order:
            order.append(value)
            queue += value.inputs
    return order


def _walked(leaf: Any, order: list[Any], passes_on: bool = True) -> float:
    grads = dict.fromkeys(order, 0.0) | {order[0]: 1.0}
    for value in order:
        for each, rule in zip(value.inputs, value.rules, strict=True):
            grads[each] += rule(grads[value] if passes_on else 1.0)
    return grads[leaf]


def _counted(rule: Any, calls: list[int]) -> Any:
    def counted(g: float) -> float:
        calls[0] += 1
        return rule(g)

    return counted
