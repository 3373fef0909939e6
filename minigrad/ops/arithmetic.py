"""Powers, roots and signs; sums, products and copies are in `core/arithmetic.py`.

Where a function has no derivative (at a tie, a kink or a pole), its docstring says which value is used, as in
PyTorch.
"""

from __future__ import annotations

from ..core.arithmetic import (  # noqa: F401 (the rest of the family)
    SAFE_DENOMINATOR,
    add,
    alias,
    astype,
    broadcast_to,
    clone,
    identity,
    multiply,
    negative,
    subtract,
    sum_to,
    to_device,
    true_divide,
)
from ..core.dtypes import is_floating
from ..core.namespace import namespace
from ..core.op import differentiable
from ..core.tensor import Tensor
from .samplers import away_from_zero, binary, cases, distinct, unary
from .samplers import positive as positives
from .samplers import real as reals

__family__ = "elementwise"
__all__ = [
    "abs", "absolute", "add", "clone", "mul", "multiply", "neg", "negative", "pow", "power", "sqrt", "sub",
    "subtract", "true_divide",
]  # fmt: skip

# samples for core's ops: core has no samplers
add.op.samples = subtract.op.samples = binary(reals) | binary(reals, alpha=0.5)
multiply.op.samples = binary(reals)
true_divide.op.samples = binary(reals, away_from_zero)
negative.op.samples = alias.op.samples = clone.op.samples = unary(reals)
astype.op.samples = cases((reals, 2, 3), dtype="float64")
to_device.op.samples = cases((reals, 2, 3), device="cpu")
broadcast_to.op.samples = (
    cases((reals, 3), (2, 3)) | cases((reals, 2, 1), (4, 2, 3)) | cases((reals,), (0, 2))
)
sum_to.op.samples = cases((reals, 2, 3), (3,)) | cases((reals, 4, 2, 3), (2, 1)) | cases((reals, 0, 2), ())

TOO_LARGE = "The numbers are too large for their dtype: normalize the inputs, or lower the learning rate."


# ---------------------------------------------------------------- powers and roots


@differentiable(
    autocast="float32",
    sign="xʸ",
    advice="Negative numbers have no fractional powers, and 0 has no negative powers: clamp the base.",
    gradient_advice="Powers below 1 have no derivative at 0.",
    samples=binary(positives, reals) | cases((away_from_zero, 2, 3), 3) | cases((reals, 3), 0),
    latex=(r"g\,y\,x^{y - 1}", r"g\,x^y \ln x"),
)
def power(x, y, /):
    """x ** y; d/dx = y x**(y - 1), 0 where y = 0; d/dy = x**y log(x), 0 where x = 0 and y >= 0."""
    xp = namespace(x, y)
    array = x if hasattr(x, "dtype") else y
    if array.dtype == bool:
        return x >= y, None  # only False ** True is False
    if isinstance(y, int | float):
        if y == 0:
            return xp.ones_like(x), (lambda g: xp.zeros_like(g), None)
        return _fast_power(x, y), (lambda g: g * (y * _fast_power(x, y - 1)), None)
    if isinstance(x, int | float):
        x = x * xp.ones_like(y)
    value = xp.power(x, y)
    flat = lambda x, y: (x == 0) & (y >= 0)
    return value, (
        lambda g: g * xp.where(y == 0, 0.0, y * xp.power(x, xp.where(y == 0, 1.0, y - 1))),
        lambda g: g * xp.where(flat(x, y), 0.0, value * xp.log(xp.where(flat(x, y), 1.0, x))),
    )


def _fast_power(x, n):
    """x ** n, using products for small integer n: NumPy's x**3 is hundreds of times slower."""
    if n not in (-3, -2, 3, 4) or not is_floating(x.dtype) or isinstance(x, Tensor):
        return x**n
    square = x * x
    product = square if n == -2 else square * square if n == 4 else square * x
    return product if n > 0 else 1 / product


@differentiable(
    sign="√",
    advice="Negative numbers have no root: clamp them, or find out where they come from.",
    gradient_advice="Add an eps under the root: its derivative at 0 is infinite.",
    floating=True,
    samples=unary(positives),
    latex=r"\frac{g}{2\sqrt{x}}",
)
def sqrt(x, /):
    """The square root; d/dx = 1 / (2 sqrt(x)), infinite at 0."""
    y = namespace(x).sqrt(x)
    return y, (lambda g: g / (2 * y),)


# ---------------------------------------------------------------- signs


@differentiable(samples=unary(distinct), latex=r"g\,\operatorname{sign}(x)")
def absolute(x, /):
    """|x|; the derivative at 0 and at NaN is 0, as in PyTorch."""
    xp = namespace(x)
    return xp.absolute(x), (lambda g: g * xp.sign(x),)


# ---------------------------------------------------------------- PyTorch's other names

abs = absolute
pow = power
sub = subtract
mul = multiply
neg = negative
