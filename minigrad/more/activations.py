"""Activation functions: piecewise linear and smooth variants of relu."""

from __future__ import annotations

from ..core.costs import per_element
from ..core.dtypes import is_floating
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.activations import sigmoid, softmax
from ..ops.arithmetic import absolute, multiply, negative, subtract
from ..ops.axes import all_floating, as_floating
from ..ops.comparisons import ge, gt, le, where
from ..ops.elementary import tanh
from ..ops.logic import clamp
from ..ops.samplers import along_axis, cases, distinct, real, unary
from ..ops.shaping import reshape, split

__family__ = "activation"
__all__ = ["celu", "hardshrink", "prelu", "selu", "threshold"]


# ---------------------------------------------------------------- piecewise linear


@differentiable(
    floating=True, samples=unary(distinct), latex=r"g\,[x > 0] + \mathrm{negative\_slope}\;g\,[x \le 0]"
)
def leaky_relu(x, /, negative_slope=0.01):
    """Compute x for positive elements, negative_slope * x for others (Maas, Hannun and Ng 2013)."""
    xp = namespace(x)
    positive = x > 0
    bend = lambda y: xp.where(positive, y, y * negative_slope)
    return bend(x), (bend,)


@derived(
    autocast="lower",
    samples=cases((distinct, 2, 3), (real,))
    | cases((distinct, 2, 3), (real, 3))
    | cases((distinct, 3), (real, 1)),
    latex=(r"g\,[x > 0] + weight\,g\,[x \le 0]", r"g\,x\,[x \le 0]"),
)
def prelu(x, weight):
    """Compute x for positive elements, weight * x for others (He et al. 2015).

    `weight` has one element, or one for each channel (axis 1).
    """
    x, weight = all_floating(x, weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(
            f"prelu's weight must have 1 or {channels} elements for x of shape {x.shape}, got shape "
            f"{weight.shape}.\nPass one weight for all, or one for each channel (axis 1)."
        )
    if weight.numel() == 1:
        weight = reshape(weight, ())
    elif x.ndim > 1:
        weight = reshape(weight, (-1,) + (1,) * (x.ndim - 2))
    return where(gt(x, 0), x, weight * x)


@differentiable(samples=unary(distinct), latex=r"g\,[\mathrm{min\_val} < x < \mathrm{max\_val}]")
def hardtanh(x, /, min_val=-1.0, max_val=1.0):
    """Limit x to [min_val, max_val]. At the limits the derivative is 0 (that of `clamp` is 1)."""
    if not min_val <= max_val:
        raise OptionError(f"min_val {min_val} is greater than max_val {max_val}.\nSwap them.")
    xp = namespace(x)
    if x.dtype == bool:
        raise DtypeError("hardtanh does not take booleans.\nConvert them: .to('float32').")
    if not is_floating(x.dtype):
        min_val, max_val = int(min_val), int(max_val)
    flat = (x <= min_val) | (x >= max_val)
    return xp.minimum(xp.maximum(x, min_val), max_val), (lambda g: xp.where(flat, 0.0, g),)


@derived(exact_in_half=True, samples=unary(distinct), latex=r"g\,[0 < x < 6]")
def relu6(x):
    """min(max(x, 0), 6)."""
    return hardtanh(x, 0.0, 6.0)


@derived(samples=unary(distinct), latex=r"\frac{g}{6}\,[-3 < x < 3]")
def hardsigmoid(x):
    """relu6(x + 3) / 6, a piecewise linear sigmoid."""
    return relu6(as_tensor(x) + 3) / 6


@derived(samples=unary(distinct), latex=r"g\,\frac{2x + 3}{6}\,[-3 < x < 3] + g\,[x \ge 3]")
def hardswish(x):
    """x relu6(x + 3) / 6 (Howard et al. 2019); the derivatives at -3 and 3 are 0 and 1."""
    x = as_floating(x)
    inner = where(ge(absolute(x), 3), 0.0, x)  # not the clamped sum: in 16 bits, x + 3 may round to 6
    return where(ge(x, 3), x, inner * (inner + 3) / 6)


@derived(samples=unary(distinct, lambd=0.6), latex=r"g\,[|x| > \lambda]")
def hardshrink(x, lambd=0.5):
    """Compute x where |x| > lambd, 0 elsewhere."""
    x = as_floating(x)
    return where(le(absolute(x), lambd), 0.0, x)


@derived(samples=unary(distinct, lambd=0.6), latex=r"g\,[|x| > \lambda]")
def softshrink(x, lambd=0.5):
    """Move x towards 0 by lambd: sign(x) max(|x| - lambd, 0)."""
    if not lambd >= 0:
        raise OptionError(f"lambd must be at least 0, got {lambd}.\nThe default is 0.5.")
    return subtract(x, clamp(x, -lambd, lambd))


@derived(samples=unary(distinct, threshold=0.2, value=-3.0), latex=r"g\,[x > \text{threshold}]")
def threshold(x, threshold, value):
    """Compute x where x > threshold, `value` elsewhere."""
    return where(le(x, threshold), value, x)


# ---------------------------------------------------------------- smooth


@differentiable(
    floating=True,
    samples=unary(distinct) | unary(distinct, alpha=0.7, scale=1.3, input_scale=0.4),
    latex=(
        r"\text{scale}\;g\,[x > 0]"
        r" + \text{scale}\;\mathrm{input\_scale}\;\alpha\,g\,e^{\mathrm{input\_scale}\;x}\,[x \le 0]"
    ),
    flops=per_element(3),
)
def elu(x, /, alpha=1.0, scale=1.0, input_scale=1.0):
    """Compute x for positive elements, alpha (e**x - 1) for others (Clevert et al. 2016).

    For selu and celu, `input_scale` multiplies x within the exponential, and `scale` the result. At 0 the
    derivative is that of the exponential.
    """
    xp = namespace(x)
    below = x <= 0
    exponent = input_scale * xp.minimum(x, 0.0)
    steep = scale * input_scale * alpha
    return scale * xp.where(below, xp.expm1(exponent) * alpha, x), (
        lambda g: xp.where(below, g * (steep * xp.exp(exponent)), g * scale),
    )


@derived(
    exact_in_half=True,
    samples=unary(distinct) | unary(distinct, alpha=0.7),
    latex=r"g\,[x > 0] + g\,e^{x / \alpha}\,[x \le 0]",
)
def celu(x, alpha=1.0):
    """Compute x for positive elements, alpha (e**(x / alpha) - 1) for others: a smooth elu (Barron 2017)."""
    return elu(x, alpha, 1.0, 1.0 / alpha)


@derived(
    exact_in_half=True,
    samples=unary(distinct),
    latex=(
        r"\lambda\,g\,[x > 0] + \lambda\,\alpha\,g\,e^x\,[x \le 0],\;"
        r" \lambda = 1.0507009873554805,\; \alpha = 1.6732632423543772"
    ),
)
def selu(x):
    """elu scaled so that mean 0 and variance 1 are a fixed point (Klambauer et al. 2017)."""
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@differentiable(
    autocast="float32",
    floating=True,
    samples=unary(real) | cases((real, 2, 3), beta=2.0, threshold=1.0),
    latex=r"g\,\sigma(\beta x)\,[\beta x \le \text{threshold}] + g\,[\beta x > \text{threshold}]",
    flops=per_element(5),
)
def softplus(x, /, beta=1.0, threshold=20.0):
    """log(1 + e**(beta x)) / beta, or x where beta x > threshold; d/dx = sigmoid(beta x)."""
    xp = namespace(x)
    z = x * beta
    linear = z > threshold
    return xp.where(linear, x, xp.logaddexp(z, 0.0) / beta), (
        lambda g: g * xp.where(linear, 1.0, xp.sigmoid(z)),
    )


@derived(autocast="float32", samples=unary(real))
def mish(x):
    """x tanh(softplus(x)) (Misra 2019)."""
    return multiply(x, tanh(softplus(x)))


@differentiable(floating=True, samples=unary(distinct), latex=r"\frac{g}{(1 + |x|)^2}", flops=per_element(3))
def softsign(x, /):
    """x / (1 + |x|); d/dx = 1 / (1 + |x|)**2."""
    xp = namespace(x)
    larger = 1 + xp.absolute(x)
    return x / larger, (lambda g: g / larger / larger,)


@differentiable(floating=True, samples=unary(real), latex=r"g \tanh^2 x", flops=per_element(2))
def tanhshrink(x, /):
    """x - tanh(x); d/dx = tanh(x)**2."""
    y = namespace(x).tanh(x)
    return x - y, (lambda g: g * (y * y),)


@derived(
    samples=cases((real, 2, 4)) | cases((real, 4, 3), dim=0) | cases((real, 0, 4)),
    latex=r"(g\,\sigma(b),\; g\,a\,\sigma(b)\,(1 - \sigma(b)))",
)
def glu(x, dim=-1):
    """a sigmoid(b), with a and b the halves of x along `dim` (Dauphin et al. 2017)."""
    x = as_tensor(x)
    if x.ndim == 0 or x.shape[dim] % 2:
        raise ShapeError(f"glu needs an even axis, got axis {dim} of shape {x.shape}.\nPass another dim.")
    half = x.shape[dim] // 2
    a, b = split(x, [half, half], dim)
    return a * sigmoid(b)


# ---------------------------------------------------------------- along an axis


@derived(autocast="float32", samples=along_axis(real), latex=r"-y \odot \Big(g - \sum_j g_j\,y_j\Big)")
def softmin(x, dim, dtype=None):
    """softmax(-x) along `dim`."""
    return softmax(negative(as_floating(x)), dim, dtype)
