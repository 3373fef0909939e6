"""The mistakes of a first op: each is refused where it is made, and the message says what to write."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import MinigradError
from minigrad.core.namespace import namespace
from minigrad.core.registry import registry
from minigrad.ops import composite, differentiable

pytestmark = pytest.mark.usefixtures("own_ops")


def leaf():
    return mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


OUTSIDE = mg.ones(3)


def keeps_a_tensor(x, /):
    y = mg.exp(x)
    return x * 2, (lambda g: g * y,)


CALLED = {  # a rule with a mistake -> what the message says
    "calls mg": (lambda x, /: (mg.sin(x), (lambda g: g * mg.cos(x),)),
        r"planted returned a Tensor: it called an op.*np.sin, or.*import namespace; xp = name"),
    "uses a tensor from outside": (lambda x, /: (x * OUTSIDE, (lambda g: g,)),
        "returned a Tensor.*Pass a Tensor that it needs as an argument"),
    "calls a method": (lambda x, /: (x.exp(), (lambda g: g,)), "no attribute 'exp'.*xp.sin with"),
    "calls math": (lambda x, /: (math.sin(x), (lambda g: g,)), "converted to Python scalars.*call np.sin"),
    "asks an array": (lambda x, /: ((x if x > 0 else 0 * x), (lambda g: g,)),
        r"truth value.*np.where\(x > 0, a, b\)"),
    "returns the value only": (lambda x, /: x * x,
        "must return a value and its gradients, but returned ndarray.*Return `value, "),
    "returns nothing": (lambda x, /: None, "but returned nothing"),
    "forgets the comma": (lambda x, /: (x * x, (lambda g: g * 2 * x)),
        r"one function of g instead of a tuple.*`\(lambda g: ...,\)`, with a comma.*\(g, needs\)"),
    "forgets the tuple": (lambda x, y, /: (x * y, lambda g: g * y, lambda g: g * x),
        "but returned 3 things.*Return `value, "),
    "returns a list": (lambda x, /: (x * x, [lambda g: g * 2 * x]), "must be a tuple, got list"),
    "returns too few": (lambda x, y, /: (x * y, (lambda g: g * y,)),
        "has 2 arrays but returned 1 gradient.*None for one that has no gradient"),
    "returns too many": (lambda x, /: (x * x, (lambda g: g * 2 * x, lambda g: g)),
        "has 1 array but returned 2 gradients"),
    "returns arrays for functions": (lambda x, /: (x * x, (2 * x,)),
        "must be a function of g, got ndarray.*Write `lambda g"),
    "returns a function without g": (lambda x, /: (x * x, (lambda: 2 * x,)),
        "must be a function of g, got one of other arguments"),
    "returns a list of values": (lambda x, /: ([x, x], (lambda g: g,)),
        "must be an array, got list.*a tuple of arrays"),
}  # fmt: skip
PULLED = {  # found in backward
    "keeps a tensor": (keeps_a_tensor, "gradient of planted returned a Tensor.*np.sin, or"),
    "calls mg": (lambda x, /: (np.sin(x), (lambda g: g * mg.cos(x),)),
        "gradient of planted returned a Tensor.*np.sin, or"),
    "is None": (lambda x, /: (x * x, (lambda g: None,)),
        "must return an array, got NoneType.*None instead of the function"),
    "is a number": (lambda x, /: (x * x, (lambda g: 2.0,)), "must return an array, got float"),
    "has the wrong shape": (lambda x, /: (x.sum(1), (lambda g: g,)),
        r"gradient of shape \(2,\) for an input of shape \(2, 3\)"),
    "one for two arrays": (lambda x, y, /: (x * y, lambda g, needs: (g * y,)),
        "returned 1 gradient for 2 arrays"),
    "an array for two": (lambda x, y, /: (x * y, lambda g, needs: g * y), "returned ndarray for 2 arrays"),
}  # fmt: skip


def called(rule):
    """The rule as an op, called on as many tensors as it takes."""
    rule.__name__ = "planted"
    return differentiable(rule)(*[leaf() for _ in range(rule.__code__.co_argcount)])


@pytest.mark.parametrize(("rule", "message"), CALLED.values(), ids=list(CALLED))
def test_invalid_rules_raise_when_called(rule, message):
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        called(rule)


@pytest.mark.parametrize(("rule", "message"), PULLED.values(), ids=list(PULLED))
def test_invalid_gradients_raise_in_backward(rule, message):
    out = called(rule).sum()
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        out.backward()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: (x, (lambda g: g,)), r"has no arrays: those are the parameters before a `/`.*\(x, /\):`"),
        (lambda ctx, x, /: (x, (lambda g: g,)), "takes ctx, but minigrad passes none.*the rule's variables"),
        (type("Function", (), {"forward": None}), "Function is not one.*Write one function"),
        (3, "3 is not one"),
    ],
)
def test_decorating_an_invalid_rule_raises(rule, message):
    known = set(registry)
    with pytest.raises(MinigradError, match=f"(?s){message}"):
        differentiable(rule)
    assert set(registry) == known


def test_tensors_passed_by_keyword_get_no_gradient():
    @differentiable
    def scaled(x, /, w):
        return x * w, (lambda g: g * w,)

    x, w = leaf(), mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(MinigradError, match=r"(?s)no gradient for its setting w.*before its `/`"):
        scaled(x, w=w)
    scaled(x, w=w.detach()).sum().backward()  # the rule gets the array
    np.testing.assert_array_equal(x.grad.array, [[1, 2, 3]] * 2)


def test_gradients_of_user_ops_have_the_dtype_of_the_input():
    @differentiable
    def double(x, /):
        return x * 2, (lambda g: g * np.full(x.shape, 2.0),)

    x = leaf()
    double(x).sum().backward()
    assert x.grad.dtype == np.float32


def test_user_defined_kernels_are_checked():
    @composite(kernel=lambda x: (mg.sin(x), (lambda g: g,)))
    def sine(x, /):
        return x.sin()

    @composite(kernel=lambda x: None)
    def cosine(x, /):
        return x.cos()

    with pytest.raises(MinigradError, match="returned a Tensor"):
        sine(leaf())
    np.testing.assert_allclose(cosine(leaf()).array, np.cos(leaf().array), rtol=1e-6)


def test_valid_rules_are_accepted():
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
