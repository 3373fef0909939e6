"""The mistakes of a first op: each is refused where it is made, and the message says what to write."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import MinigradError
from minigrad.core.namespace import namespace
from minigrad.core.registry import ops, registry
from minigrad.ops import composite, differentiable


@pytest.fixture(autouse=True)
def own_registry():
    before = dict(registry), dict(ops)
    yield
    for table, old in zip((registry, ops), before, strict=True):
        table.clear()
        table.update(old)


def leaf():
    return mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


OUTSIDE = mg.ones(3)


def calls_mg(x, /):
    return mg.sin(x), (lambda g: g * mg.cos(x),)


def keeps_a_tensor(x, /):
    y = mg.exp(x)
    return x * 2, (lambda g: g * y,)


def uses_a_tensor_from_outside(x, /):
    return x * OUTSIDE, (lambda g: g,)


def calls_mg_in_its_gradient(x, /):
    return np.sin(x), (lambda g: g * mg.cos(x),)


def calls_a_method(x, /):
    return x.exp(), (lambda g: g,)


def calls_math(x, /):
    return math.sin(x), (lambda g: g,)


def asks_an_array(x, /):
    return (x if x > 0 else 0 * x), (lambda g: g,)


def returns_the_value_only(x, /):
    return x * x


def returns_nothing(x, /):
    x * x


def forgets_the_comma(x, /):
    return x * x, (lambda g: g * 2 * x)


def forgets_the_tuple(x, y, /):
    return x * y, lambda g: g * y, lambda g: g * x


def returns_a_list(x, /):
    return x * x, [lambda g: g * 2 * x]


def returns_too_few(x, y, /):
    return x * y, (lambda g: g * y,)


def returns_too_many(x, /):
    return x * x, (lambda g: g * 2 * x, lambda g: g)


def returns_arrays_for_functions(x, /):
    return x * x, (2 * x,)


def returns_a_function_without_g(x, /):
    return x * x, (lambda: 2 * x,)


def returns_a_list_of_values(x, /):
    return [x, x], (lambda g: g,)


def gradient_is_none(x, /):
    return x * x, (lambda g: None,)


def gradient_is_a_number(x, /):
    return x * x, (lambda g: 2.0,)


def gradient_has_the_wrong_shape(x, /):
    return x.sum(1), (lambda g: g,)


def one_gradient_for_two(x, y, /):
    return x * y, lambda g, needs: (g * y,)


def an_array_for_two_gradients(x, y, /):
    return x * y, lambda g, needs: g * y


CALLED = [  # the rule, how many arrays it takes, what the message says
    (calls_mg, 1, r"calls_mg returned a Tensor: it called an op.*np.sin, or.*import namespace; xp = name"),
    (uses_a_tensor_from_outside, 1, "returned a Tensor.*Pass a Tensor that it needs as an argument"),
    (calls_a_method, 1, "no attribute 'exp'.*xp.sin with"),
    (calls_math, 1, "converted to Python scalars.*call np.sin"),
    (asks_an_array, 1, r"truth value.*np.where\(x > 0, a, b\)"),
    (
        returns_the_value_only,
        1,
        "must return a value and its gradients, but returned ndarray.*Return `value, ",
    ),
    (returns_nothing, 1, "but returned nothing"),
    (forgets_the_comma, 1, r"one function of g instead of a tuple.*`\(lambda g: ...,\)`, with a comma"),
    (forgets_the_tuple, 2, "but returned 3 things.*Return `value, "),
    (returns_a_list, 1, "must be a tuple, got list"),
    (returns_too_few, 2, "has 2 arrays but returned 1 gradient.*None for one that has no gradient"),
    (returns_too_many, 1, "has 1 array but returned 2 gradients"),
    (returns_arrays_for_functions, 1, "must be a function of g, got ndarray.*Write `lambda g"),
    (returns_a_function_without_g, 1, "must be a function of g, got one of other arguments"),
    (returns_a_list_of_values, 1, "must be an array, got list.*a tuple of arrays"),
]
PULLED = [  # found in backward
    (keeps_a_tensor, 1, "gradient of keeps_a_tensor returned a Tensor.*np.sin, or"),
    (calls_mg_in_its_gradient, 1, "gradient of calls_mg_in_its_gradient returned a Tensor.*np.sin, or"),
    (gradient_is_none, 1, "must return an array, got NoneType.*None instead of the function"),
    (gradient_is_a_number, 1, "must return an array, got float"),
    (gradient_has_the_wrong_shape, 1, r"gradient of shape \(2,\) for an input of shape \(2, 3\)"),
    (one_gradient_for_two, 2, "returned 1 gradient for 2 arrays"),
    (an_array_for_two_gradients, 2, "returned ndarray for 2 arrays"),
]
named = {"ids": lambda x: getattr(x, "__name__", "")}


@pytest.mark.parametrize(("rule", "count", "message"), CALLED, **named)
def test_a_mistake_in_a_rule_is_refused_when_it_is_called(rule, count, message):
    xs = [leaf() for _ in range(count)]
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        differentiable(rule)(*xs)
    np.testing.assert_array_equal(xs[0].array, leaf().array)


@pytest.mark.parametrize(("rule", "count", "message"), PULLED, **named)
def test_a_mistake_in_a_gradient_is_refused_in_backward(rule, count, message):
    out = differentiable(rule)(*[leaf() for _ in range(count)]).sum()
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        out.backward()


class Function:
    def forward(self, ctx, x):
        return x


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: (x, (lambda g: g,)), r"has no arrays: those are the parameters before a `/`.*\(x, /\):`"),
        (lambda ctx, x, /: (x, (lambda g: g,)), "takes ctx, but minigrad passes none.*the rule's variables"),
        (Function, "Function is not one.*Write one function"),
        (3, "3 is not one"),
    ],
)
def test_what_is_not_a_rule_is_refused_when_it_is_decorated(rule, message):
    known = set(registry)
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        differentiable(rule)
    assert set(registry) == known


def test_an_array_by_keyword_is_a_setting():
    @differentiable
    def scaled(x, /, w):
        return x * w, (lambda g: g * w,)

    x, w = leaf(), mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(MinigradError, match=r"(?s)no gradient for its setting w.*before its `/`"):
        scaled(x, w=w)
    scaled(x, w=w.detach()).sum().backward()  # the rule gets the array
    np.testing.assert_array_equal(x.grad.array, [[1, 2, 3]] * 2)


def test_a_gradient_has_its_inputs_dtype():
    @differentiable
    def double(x, /):
        return x * 2, (lambda g: g * np.full(x.shape, 2.0),)

    x = leaf()
    double(x).sum().backward()
    assert x.grad.dtype == np.float32


def test_a_kernel_of_a_users_own_is_checked_too():
    @composite(kernel=lambda x: (mg.sin(x), (lambda g: g,)))
    def sine(x, /):
        return x.sin()

    @composite(kernel=lambda x: None)
    def cosine(x, /):
        return x.cos()

    with pytest.raises(MinigradError, match="returned a Tensor"):
        sine(leaf())
    np.testing.assert_allclose(cosine(leaf()).array, np.cos(leaf().array), rtol=1e-6)


def test_right_rules_are_let_through():
    @differentiable
    def sine(x, /):
        xp = namespace(x)
        return xp.sin(x), (lambda g: g * xp.cos(x),)

    @differentiable
    def both(x, y, /, *, scale=1.0):
        return scale * x * y, lambda g, needs: (g * scale * y if needs[0] else None, g * scale * x)

    @differentiable
    def halves(x, /):
        return (x[:1], x[1:]), (
            lambda gs: np.concatenate([np.zeros((1, 3)) if g is None else g for g in gs]),
        )

    @differentiable
    def added(*xs):
        return sum(xs), tuple(lambda g: g for _ in xs)

    x, y = (mg.tensor(leaf().array.astype(np.float64), requires_grad=True) for _ in range(2))
    mg.gradcheck(sine, x, order=2)
    mg.gradcheck(lambda x, y: both(x, y, scale=3.0), [x, y], order=2)
    mg.gradcheck(lambda x: halves(x)[1] * 2, x)
    mg.gradcheck(added, [x, y])
    w = mg.nn.Parameter(x.detach())
    (g,) = mg.autograd.grad(sine(w).sum(), w, create_graph=True)
    np.testing.assert_allclose(mg.autograd.grad(g.sum(), w)[0].array, -np.sin(w.array))
    assert sine(mg.tensor(1.0, requires_grad=True)).shape == ()


def test_a_tensor_beside_an_unassigned_variable_is_seen():
    @differentiable
    def f(x, /):
        kept = mg.ones(2)
        if x is None:
            never = 1
        return x * 2, (lambda g: g * kept if kept is not None else never,)

    with pytest.raises(MinigradError, match="returned a Tensor"):
        f(mg.ones(2, requires_grad=True)).sum().backward()
