"""func: derivatives of functions, in the structure of their arguments, to any order."""

from typing import NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad import DtypeError, OptionError, ShapeError, func
from tests.core.gradients import assert_equal


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


A = numbers(3, 3, seed=9)
X = numbers(3)


def quadratic(x):
    """xᵀ A x: its gradient is (A + Aᵀ) x, its Hessian A + Aᵀ."""
    return x @ (mg.tensor(A) @ x)


# ---------------------------------------------------------------- grad


def test_gradients_of_gradients_to_any_order():
    f = lambda x: x**5
    for closed in (lambda x: 5 * x**4, lambda x: 20 * x**3, lambda x: 60 * x**2, lambda x: 120 * x):
        f = func.grad(f)
        assert_equal(f(np.float64(1.5)), closed(1.5))


class Params(NamedTuple):
    w: object
    rest: object


def test_gradients_have_the_structure_of_the_argument():
    params = Params(w=numbers(2, 3), rest={"b": [numbers(2), None], "scale": (np.float64(2.0),)})

    def loss(p, x):
        return ((p.w @ x + p.rest["b"][0]) * p.rest["scale"][0]).sum()

    x = mg.tensor(numbers(3, seed=1))
    g = func.grad(loss)(params, x)
    assert type(g) is Params
    assert_equal(g.w, 2 * np.tile(x.array, (2, 1)))
    assert_equal(g.rest["b"][0], [2, 2])
    assert g.rest["b"][1] is None
    assert_equal(g.rest["scale"][0], (params.w @ x.array + params.rest["b"][0]).sum())


def test_several_arguments_give_a_tuple():
    f = lambda x, y, z: (x * y).sum() * z
    gx, gz = func.grad(f, argnums=(0, -1))(X, 2 * X, 3.0)
    assert_equal(gx, 6 * X)
    assert_equal(gz, 2 * X @ X, rtol=1e-6)


def test_value_and_grad_with_aux():
    f = lambda x, *, k: ((x * k).sum(), {"twice": 2 * x})
    (value, aux), g = func.value_and_grad(f, has_aux=True)(X, k=3.0)
    assert_equal(value, 3 * X.sum())
    assert_equal(aux["twice"], 2 * X)
    assert not value.requires_grad
    assert not aux["twice"].requires_grad
    assert_equal(g, [3, 3, 3])
    g, aux = func.grad(f, has_aux=True)(X, k=3.0)
    assert_equal(g, [3, 3, 3])


def test_constants_and_unused_arguments_have_the_gradient_zero():
    assert_equal(func.grad(lambda x: 1.0)(X), np.zeros(3))
    _, gy = func.grad(lambda x, y: x.sum(), (0, 1))(X, X)
    assert_equal(gy, np.zeros(3))
    assert gy.dtype == mg.float64
    assert_equal(func.grad(func.grad(lambda x: 3 * x))(2.0), 0)
    assert_equal(func.hessian(lambda x: x.sum())(X), np.zeros((3, 3)))
    assert_equal(func.jvp(lambda x: mg.ones(2), (X,), (X,))[1], [0, 0])


def test_transforms_do_not_change_grad_or_run_hooks_of_inputs():
    calls = []
    x = mg.tensor(X, requires_grad=True)
    x.register_hook(calls.append)
    func.grad(quadratic)(x)
    func.hvp(quadratic, (x,), (x,))
    assert x.grad is None
    assert calls == []


def test_closures_are_constant_only_for_the_inner_function():
    outer = func.grad(lambda x: x * func.grad(lambda y: x + y)(1.0))
    assert_equal(outer(1.0), 1)
    assert not outer(1.0).requires_grad
    mixed = func.grad(lambda x: func.grad(lambda y: x**2 * y**3)(np.float64(2.0)))
    assert_equal(mixed(np.float64(5.0)), 2 * 5 * 3 * 4)
    assert not mixed(5.0).requires_grad


def test_gradients_flow_to_tensors_outside_the_function():
    w = mg.tensor(np.array([2.0, 3.0]), requires_grad=True)
    g = func.grad(lambda x: (w * x * x).sum())(np.array([1.0, 5.0]))  # 2 w x
    (g * g).sum().backward()
    assert_equal(w.grad, 8 * w.array * [1, 25])
    with mg.no_grad():
        assert not func.grad(lambda x: (w * x * x).sum())(np.array([1.0, 5.0])).requires_grad


def test_everything_works_under_no_grad():
    with mg.no_grad():
        assert_equal(func.hessian(quadratic)(X), A + A.T)
        assert_equal(func.hvp(quadratic, (X,), (X,)), (A + A.T) @ X)
        assert_equal(func.jvp(lambda x: x * x, (X,), (X,))[1], 2 * X * X)


# ---------------------------------------------------------------- vjp, jvp


def test_vjp_and_jvp_of_a_linear_map():
    m = mg.tensor(numbers(2, 3))
    y, pull = func.vjp(lambda x: m @ x, X)
    assert_equal(y, m.array @ X)
    for v in (np.array([1.0, 0.0]), np.array([2.0, -1.0])):  # any number of times
        (g,) = pull(v)
        assert_equal(g, v @ m.array)
    y, t = func.jvp(lambda x: m @ x, (X,), (np.ones(3),))
    assert_equal(t, m.array @ np.ones(3))


def test_vjp_and_jvp_agree_on_nested_functions():
    f = lambda p, y: {"a": (p["w"] * y).tanh(), "b": [p["w"].sum() * y[0]]}
    p, y = {"w": numbers(3)}, numbers(3, seed=1)
    tp = {"w": numbers(3, seed=2)}
    ty = numbers(3, seed=3)
    _, pull = func.vjp(f, p, y)
    v = {"a": numbers(3, seed=4), "b": [np.float64(0.7)]}
    gp, gy = pull(v)
    _, t = func.jvp(f, (p, y), (tp, ty))
    along = (gp["w"].array * tp["w"]).sum() + (gy.array * ty).sum()
    assert_equal((t["a"].array * v["a"]).sum() + t["b"][0].array * v["b"][0], along)


def test_vjp_and_jvp_can_be_differentiated():
    f = lambda x: x**3
    assert_equal(func.grad(lambda x: func.jvp(f, (x,), (mg.ones(3, dtype="float64"),))[1].sum())(X), 6 * X)
    assert_equal(func.grad(lambda x: func.vjp(f, x)[1](np.ones(3))[0].sum())(X), 6 * X)
    assert_equal(func.grad(lambda v: func.vjp(f, X)[1](v)[0].sum())(np.ones(3)), 3 * X**2)
    assert_equal(func.grad(lambda t: func.jvp(f, (X,), (t,))[1].sum())(np.ones(3)), 3 * X**2)


# ---------------------------------------------------------------- jacobian, hessian, hvp


def test_jacobian_shape_is_output_shape_then_input_shape():
    f = lambda x: mg.tensor(numbers(2, 3)) @ x
    assert_equal(func.jacobian(f)(X), numbers(2, 3))
    assert func.jacobian(lambda x: x.sum(1))(numbers(2, 3)).shape == (2, 2, 3)
    assert func.jacobian(lambda x: x.sum())(X).shape == (3,)
    assert func.jacobian(lambda x: x[:0])(X).shape == (0, 3)


def test_jacobian_of_nested_structures():
    f = lambda p, y: {"u": p["w"] * 2, "v": (p["b"].sum() * y,)}
    p = {"w": numbers(2), "b": numbers(3)}
    jp, jy = func.jacobian(f, (0, 1))(p, X)["v"][0]
    assert_equal(jp["b"], np.tile(X[:, None], (1, 3)))
    assert_equal(jp["w"], np.zeros((3, 2)))
    assert_equal(jy, p["b"].sum() * np.eye(3))
    blocks = func.jacobian(f)(p, X)["u"]
    assert_equal(blocks["w"], 2 * np.eye(2))
    assert blocks["b"].shape == (2, 3)


def test_a_hessian_is_symmetric_blocks():
    assert_equal(func.hessian(quadratic)(X), A + A.T)
    h = func.hessian(lambda p: (p["x"].exp().sum() * p["y"].sum()) ** 2)({"x": X, "y": 2 * X})
    assert_equal(h["x"]["y"], h["y"]["x"].array.T)
    assert func.hessian(lambda x: x**3)(X).shape == (3, 3, 3)
    h = func.hessian(lambda x, y: (x * y).sum(), (0, 1))(X, X)
    assert_equal(h[0][1], np.eye(3))


def test_hvp_is_the_hessian_times_the_vector():
    f = lambda x: (x.sin() * x.sum()).sum()
    v = numbers(3, seed=5)
    hessian = func.hessian(f)(X).array
    assert_equal(func.hvp(f, (X,), (v,)), hessian @ v)
    assert_equal(func.hvp(f, X, v), hessian @ v)
    hx, hy = func.hvp(lambda x, y: (x * y).sum() ** 2, (X, 2 * X), (v, 0 * v))
    assert hx.shape == hy.shape == (3,)


def test_hvp_never_forms_the_hessian():
    n = 20_000  # a Hessian would be 3.2 GB
    x, v = numbers(n), numbers(n, seed=1)
    assert_equal(func.hvp(lambda x: (x**3).sum() / 6, (x,), (v,)), x * v)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: func.grad(lambda params: 0)({"w": np.array([1])}), DtypeError, r'params\["w"\] is int64'),
        (lambda: func.grad(lambda p: p[1])([1.0, True]), DtypeError, r"p\[1\] is bool"),
        (lambda: func.grad(lambda x: x)("three"), DtypeError, r"x is str"),
        (lambda: func.grad(lambda x: x)(X), ShapeError, r"shape \(3,\)[\s\S]*jacobian"),
        (lambda: func.grad(lambda x: (x, x))(1.0), ShapeError, "returns a scalar"),
        (lambda: func.grad(lambda x: x > 0)(1.0), DtypeError, "returned bool"),
        (lambda: func.grad(lambda x: None)(1.0), ShapeError, "no tensor"),
        (lambda: func.grad(lambda x: x, 1)(1.0), OptionError, "argnums=1"),
        (lambda: func.grad(lambda x: x, (0, 0))(1.0), OptionError, "twice"),
        (lambda: func.grad(lambda x: x, has_aux=True)(1.0), OptionError, r"\(result, aux\)"),
        (lambda: func.vjp(lambda x: {"y": x}, X)[1](X), ShapeError, r"\{'y': \*\}"),
        (lambda: func.vjp(lambda x: {"y": x}, X)[1]({"y": X[:2]}), ShapeError, r'cotangent\["y"\]'),
        (lambda: func.jvp(lambda x: x, (X,), (X[:2],)), ShapeError, r"tangent\[0\]"),
        (lambda: func.jvp(lambda x: x, (X,), (X, X)), ShapeError, "structure"),
        (lambda: func.hvp(lambda x: x, (X,), (X,)), ShapeError, "returns a scalar"),
    ],
)
def test_invalid_calls_of_transforms_are_rejected(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
