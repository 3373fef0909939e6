"""Linear algebra: what PyTorch's database does not try, and mistakes."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.core.errors import DtypeError, MinigradError, OptionError, ShapeError

A = mg.ones(2, 3)
ONES = mg.ones(3, 3)
ONE = mg.eye(3)
RNG = np.random.default_rng(0)


def draw(*shape):
    return mg.tensor(RNG.normal(size=shape), requires_grad=True)


# ---------------------------------------------------------------- einsum


@st.composite
def contractions(draw):
    """An equation of up to three operands over letters of lengths 1 to 3, and the operands."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcde"}
    terms = draw(st.lists(st.lists(st.sampled_from("abcde"), max_size=3), min_size=1, max_size=3))
    used = sorted({letter for term in terms for letter in term})
    output = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    equation = ",".join(map("".join, terms)) + "->" + "".join(output)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return equation, [rng.normal(size=[sizes[letter] for letter in term]) for term in terms]


@given(contractions())
def test_einsum_agrees_with_numpy_and_passes_gradcheck(case):
    equation, arrays = case
    tensors = [mg.tensor(a, requires_grad=True) for a in arrays]
    value = mg.einsum(equation, *tensors)
    np.testing.assert_allclose(value.array, np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)
    assert mg.gradcheck(lambda *xs: mg.einsum(equation, *xs), tensors).passed


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("...ij,...jk", [(2, 2, 3), (3, 4)]),
        ("i...,...i", [(3, 2), (4, 2, 3)]),
        ("...,...->...", [(2, 3), (3,)]),
        ("...a->a...", [(2, 3, 4)]),
        (" a b , b -> a ", [(2, 3), (3,)]),
    ],
)
def test_einsum_takes_implicit_outputs_and_ellipses(equation, shapes):
    arrays = [RNG.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(mg.einsum(equation, *arrays).array, np.einsum(equation, *arrays), atol=1e-12)


NUMBERED = [
    ([0, 1], [1, 2], [0, 2]),
    ([0, 1], [1, 2]),
    ([7, 3], [3, 1]),  # no output is given: in the order of the numbers
    ([30, 1], [1, 2]),
    ([..., 1], [1, ...], [...]),
    ((0, 1), (1, 2), ()),
]


@pytest.mark.parametrize("axes", NUMBERED, ids=str)
def test_einsum_with_numbered_axes_agrees_with_numpy(axes):
    x, y = draw(3, 4), draw(4, 3)
    arguments = [x, axes[0], y, *axes[1:]]
    expected = np.einsum(*(a.array if isinstance(a, mg.Tensor) else list(a) for a in arguments))
    np.testing.assert_allclose(mg.einsum(*arguments).array, expected, atol=1e-12)


@pytest.mark.parametrize("axes", [[-1, 0], [52, 0], ["i", "j"], [[0], 1], 3])
def test_einsum_rejects_invalid_axis_numbers(axes):
    with pytest.raises(OptionError, match="numbers from 0 to 51"):
        mg.einsum(draw(3, 4), [0, 1], draw(4, 3), axes)


# ---------------------------------------------------------------- where derivatives are delicate


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf, -1])
def test_the_gradient_of_the_norm_of_zeros_is_zero(p):
    x = mg.zeros(3, dtype="float64", requires_grad=True)
    with np.errstate(divide="ignore"):
        (g,) = mg.autograd.grad(mg.linalg.vector_norm(x, p), x, create_graph=True)
        np.testing.assert_array_equal(g.array, 0.0)
        if g.requires_grad:
            g.sum().backward()
            assert np.isfinite(x.grad.array).all()


@pytest.mark.parametrize("p", [-0.5, -1, -2, -3])
@pytest.mark.parametrize("values", [[0.0, 3.0, 0.0, 0.0], [0.0, 3.0, 4.0, 5.0], [-0.0, -1.0, 2.0, 1e-5]])
def test_norms_of_negative_order_have_zero_gradient_at_0(values, p):
    """One 0 makes it 0, and so it stays whatever the others are."""
    for norm in (mg.linalg.vector_norm, mg.norm, mg.linalg.norm):
        x = mg.tensor([values, [1.0, 2.0, 4.0, 8.0]], dtype="float64", requires_grad=True)
        with np.errstate(divide="ignore"):
            n = norm(x, p, dim=1)
            (g,) = mg.autograd.grad(n.sum(), x, create_graph=True)
            (h,) = mg.autograd.grad(g.sum(), x)
        assert n[0].item() == 0
        np.testing.assert_array_equal(g.array[0], 0)
        np.testing.assert_array_equal(h.array[0], 0)
        np.testing.assert_allclose(g.array[1], (x.array[1] / n.array[1]) ** (p - 1))


@pytest.mark.parametrize("order", [1, 2])
def test_the_determinant_of_a_singular_matrix_has_derivatives(order):
    singular = mg.tensor([[1.0, 2, 0], [2, 4, 0], [1, 0, 3]], dtype="float64", requires_grad=True)
    assert mg.det(singular).item() == 0.0
    assert mg.gradcheck(mg.det, singular, order=order).passed


def test_repeated_eigenvalues_have_a_gradient():
    x = mg.eye(3, dtype="float64").requires_grad_()
    mg.linalg.eigvalsh(x).sum().backward()
    np.testing.assert_allclose(x.grad.array, np.eye(3), atol=1e-15)


def test_gradients_ignore_the_signs_of_eigenvectors():
    x = draw(4, 3)
    rebuilt = lambda x: (lambda u, s, vh: (u * s.square()) @ vh)(*mg.linalg.svd(x, full_matrices=False))
    for order in (1, 2):
        assert mg.gradcheck(rebuilt, x, order=order).passed


def test_matrix_exp_of_large_and_small_matrices():
    np.testing.assert_allclose(mg.matrix_exp(mg.zeros(2, 2)).array, np.eye(2))
    turn = 200.25 * math.pi * np.array([[0.0, -1.0], [1.0, 0.0]])
    np.testing.assert_allclose(
        mg.matrix_exp(turn).array, np.array([[1, -1], [1, 1]]) / math.sqrt(2), atol=1e-11
    )


# ---------------------------------------------------------------- shapes and dtypes


def test_multi_dot_accepts_vectors_at_either_end():
    a = draw(3)
    b = draw(3, 4)
    c = draw(4)
    assert mg.linalg.multi_dot([a, b, c]).shape == ()
    np.testing.assert_allclose(mg.linalg.multi_dot([a, b, c]).item(), a.array @ b.array @ c.array)
    assert mg.chain_matmul(b) is b


def test_addmm_with_beta_0_ignores_nan_in_the_input():
    nothing = mg.full((2, 2), math.nan)
    np.testing.assert_array_equal(mg.addmm(nothing, A, A.T, beta=0).array, 3.0)


def test_linalg_converts_integers_to_float():
    assert mg.linalg.det(mg.tensor([[1, 2], [3, 4]])).dtype == np.float32
    assert mg.norm(mg.tensor([3, 4])).item() == 5.0


# ---------------------------------------------------------------- mistakes

MISTAKES = {
    "rows and columns": (lambda: A @ A, ShapeError, r"\(2, 3\) .* axis -1 .* 3 .* axis -2 .* 2", "transpose"),
    "batches": (lambda: mg.ones(2, 2, 3) @ mg.ones(3, 3, 4), ShapeError, "axis -3 has 2 .* 3", "equal"),
    "a number": (lambda: A @ mg.tensor(1.0), ShapeError, "a number is not a matrix", r"Use \*"),
    "mm of vectors": (lambda: mg.mm(A, mg.ones(3)), ShapeError, r"matrices, got .*\(3,\)", "matmul"),
    "bmm of batches": (lambda: mg.bmm(mg.ones(2, 2, 3), mg.ones(1, 3, 4)), ShapeError, "2 and 1", "equal"),
    "addmm": (lambda: mg.addmm(mg.ones(2, 2, 2), A, A.T), ShapeError, r"\(2, 2, 2\) does", "Reshape"),
    "cross": (lambda: mg.cross(A, mg.ones(2, 2)), ShapeError, r"\(2, 3\) and \(2, 2\)", "length 3"),
    "addmm of beta 0": (lambda: mg.addmm(mg.ones(3), A, A.T, beta=0), ShapeError, r"\(3,\) does", "Reshape"),
    "tensordot twice": (lambda: mg.tensordot(ONES, ONES, ((0, 0), (0, 1))), ShapeError, "repeated", "once"),
    "tensordot": (lambda: mg.tensordot(A, A, 1), ShapeError, "axis 1 .* 3, .* axis 0 .* 2", "equal lengths"),
    "multi_dot of one": (lambda: mg.linalg.multi_dot([A]), OptionError, "two tensors, got 1", "list"),
    "einsum's letter": (lambda: mg.einsum("i$,jk", A, A), OptionError, r"'\$' is not a letter", "a to z"),
    "einsum's operands": (lambda: mg.einsum("ij,jk", A), OptionError, "2 operands, got 1", "each"),
    "einsum's lengths": (lambda: mg.einsum("ij,jk", A, A), ShapeError, "'j' has .* 3 .* 2", r"\(2, 3\)"),
    "einsum's diagonal": (lambda: mg.einsum("ii", A), ShapeError, "'i' has .* 2 .* 3", "equal lengths"),
    "einsum's output": (lambda: mg.einsum("ij->ik", A), OptionError, "'k' is not in any operand", "Remove"),
    "einsum's output twice": (lambda: mg.einsum("ij->ii", A), OptionError, "'i' is repeated", "once"),
    "einsum's axes": (lambda: mg.einsum("ijk", A), ShapeError, '"ijk" names 3 axes .* 2', "Name each"),
    "einsum's dots": (lambda: mg.einsum("......", A), OptionError, "twice", "once"),
    "einsum's equation": (lambda: mg.einsum(A, A), OptionError, "equation", "ij,jk"),
    "a singular matrix": (lambda: mg.linalg.inv(ONES), MinigradError, "the matrix is singular", "inverse"),
    "one of a batch": (lambda: mg.linalg.inv(mg.stack([ONE, ONES])), MinigradError, r"\[1\] of", "rows"),
    "singular equations": (lambda: mg.linalg.solve(mg.stack([ONE, ONES]), mg.ones(3, 2)), MinigradError,
                                   r"solve.*matrix \[1\]", "rows"),
    "a negative matrix": (lambda: mg.cholesky(-ONE), MinigradError, "not positive definite", "eigen"),
    "a matrix that is not square": (lambda: mg.det(A), ShapeError, r"square, got shape \(2, 3\)", "equal"),
    "a vector": (lambda: mg.linalg.svd(mg.ones(2)), ShapeError, r"a matrix .* got shape \(2,\)", "axis"),
    "a right side": (lambda: mg.linalg.solve(ONE, mg.ones(2)), ShapeError, r"\(3, 3\) .* \(2,\)", "rows"),
    "a power": (lambda: mg.matrix_power(ONE, 0.5), DtypeError, "0.5", "int"),
    "a matrix's order": (lambda: mg.linalg.norm(A, "max"), OptionError, "nuc.*'max'", "Choose"),
    "a vector's order": (lambda: mg.linalg.vector_norm(A, "fro"), OptionError, "number, got 'fro'", "inf"),
    "axes of an order": (lambda: mg.linalg.norm(mg.ones(2, 2, 2), 1), ShapeError, "axes, got 3", "dim"),
    "the largest of nothing": (lambda: mg.norm(mg.ones(0), math.inf), ShapeError, "no elements", "one"),
    "distances": (lambda: mg.cdist(A, mg.ones(2, 2)), ShapeError, r"\(2, 3\) and \(2, 2\)", "Transpose"),
    "a mode": (lambda: mg.linalg.qr(A, mode="complete"), OptionError, "'complete'", "reduced"),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "what", "remedy"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_explained(mistake, error, what, remedy):
    with pytest.raises(error) as raised:
        mistake()
    first, second = str(raised.value).split("\n")
    assert re.search(what, first), first
    assert re.search(remedy, second), second
