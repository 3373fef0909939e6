"""Every kernel against its definition, computed with more digits: from the least numbers
to the largest, of both signs, and far from 0.

A case is a kernel, its inputs at a magnitude, and what it should give: each number with a bound, the sum of
the absolute terms that the definition adds up last. A result may be off by a few units in the last place of
that bound. What is exact in the definition, such as the difference of two close numbers, adds nothing to it.
"""

import importlib
import math
import pkgutil

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core.registry import ops
from minigrad.nn import functional as F
from minigrad.ops.linalg import matmul_arrays
from tests.kernel_sets import BOTH, Kernels, needs_numba, registered

cpu, jit = Kernels("numpy"), Kernels("jit")
UNITS = 24  # units in the last place of the bound, for a few dozen terms
WIDE = np.longdouble
MAGNITUDES = (1e-30, 1e-20, 1e-10, 1e-3, 1.0, 40.0, 1e4, 1e10, 1e20, 1e30)
OFFSETS = (0.0, 1e4, -1e4, 1e8, -1e8)  # added to numbers about 1


def draw(*shape, seed=0, scale=1.0, offset=0.0, dtype=np.float32):
    return (np.random.default_rng(seed).normal(size=shape) * scale + offset).astype(dtype)


def spread(*shape, seed=0, dtype=np.float32):
    """Numbers of all magnitudes in one array."""
    rng = np.random.default_rng(seed)
    return (rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-30, 30, shape)).astype(dtype)


def inputs(shape, dtype, seed=0):
    """Arrays of that shape at all magnitudes and offsets."""
    yield from (draw(*shape, seed=seed, scale=m, dtype=dtype) for m in MAGNITUDES)
    yield from (draw(*shape, seed=seed, offset=m, dtype=dtype) for m in OFFSETS)
    yield from (np.full(shape, m, dtype) for m in (1e8, -1e30))


def total(x, axis=-1):
    return x.sum(axis=axis, keepdims=True)


def close(found, expected, bound, dtype, units=UNITS):
    """Whether a result is its definition's value, where the terms of that are numbers of the dtype."""
    found, expected = np.asarray(found), np.asarray(expected, WIDE)
    assert found.dtype == dtype
    assert found.shape == expected.shape
    info = np.finfo(dtype)
    bound = np.broadcast_to(np.asarray(bound, WIDE), expected.shape)
    known = np.isfinite(expected) & (bound < info.max / 8)
    tolerance = units * (WIDE(info.eps) * bound + info.tiny)
    wrong = known & ~(abs(found.astype(WIDE) - np.where(known, expected, 0)) <= tolerance)
    assert not wrong.any(), (
        f"expected {expected[wrong][:3]}, got {found[wrong][:3]}, {wrong.sum()} of {wrong.size} wrong"
    )
    assert known.any()


# ---------------------------------------------------------------- definitions, each with its bounds


def softmax_of(x):
    d = x - x.max(-1, keepdims=True)
    e = np.exp(d)
    return e / total(e), d, np.log(total(e))


def of_softmax(package, dtype):
    for x in inputs((3, 21), dtype):
        g = draw(3, 21, seed=9, dtype=dtype)
        p, d, _ = softmax_of(x.astype(WIDE))
        value, gradient = package.softmax(x, -1)
        yield value, p, p * (1 + abs(d))
        yield (
            gradient(g, [True])[0],
            p * (g - total(g * p)),
            p * (1 + abs(d)) * (abs(g) + total(abs(g) * p * (1 + abs(d)))),
        )


def of_log_softmax(package, dtype):
    for x in inputs((3, 21), dtype):
        g = draw(3, 21, seed=9, dtype=dtype)
        p, d, shift = softmax_of(x.astype(WIDE))
        value, gradient = package.log_softmax(x, -1)
        yield value, d - shift, abs(d) + shift + 1
        yield (
            gradient(g, [True])[0],
            g - p * total(g.astype(WIDE)),
            abs(g) + p * (1 + abs(d) + shift) * total(abs(g)),
        )


def of_logsumexp(package, dtype):
    for x in inputs((3, 21), dtype):
        g = draw(3, seed=9, dtype=dtype)
        p, d, shift = softmax_of(x.astype(WIDE))
        value, gradient = package.logsumexp(x, -1)
        y = (x.max(-1, keepdims=True).astype(WIDE) + shift)[:, 0]
        yield value, y, abs(y) + 1
        yield gradient(g, [True])[0], g[:, None] * p, abs(g[:, None]) * p * (1 + abs(d))


def of_cross_entropy(package, dtype):
    target = np.array([3, 20, -100])
    for x in inputs((3, 21), dtype):
        for smoothing, how in ((0.0, "none"), (0.1, "none"), (0.1, "mean")):
            p, d, shift = softmax_of(x.astype(WIDE))
            q = np.full((3, 21), WIDE(smoothing) / 21)
            q[[0, 1], target[:2]] += 1 - WIDE(smoothing)
            seen = np.array([1, 1, 0])[:, None]
            value, gradient = package.cross_entropy(x, target, -100, how, smoothing)
            losses = (shift - total(q * d)) * seen
            bounds = (shift + 1 + total(q * abs(d))) * seen
            g = draw(3, seed=9, dtype=dtype) if how == "none" else np.asarray(dtype.type(0.7))
            scale = (g[:, None] if how == "none" else g / 2) * seen
            if how == "none":
                yield value, losses[:, 0], bounds[:, 0]
            else:
                yield value, losses.sum() / 2, bounds.sum() / 2
            yield gradient(g, [True, False])[0], scale * (p - q), abs(scale) * (p * (1 + abs(d) + shift) + q)


def of_relu(package, dtype):
    for x in [*inputs((40,), dtype), spread(64, dtype=dtype)]:
        g = draw(*x.shape, seed=9, dtype=dtype)
        value, (gradient,) = package.relu(x)
        yield value, np.maximum(x, 0), 0
        yield gradient(g), np.where(x > 0, g, 0), 0


def of_gelu(package, dtype):
    for x in [*inputs((40,), dtype), spread(64, dtype=dtype)]:
        g = draw(*x.shape, seed=9, dtype=dtype)
        wide = np.clip(x.astype(WIDE), -1e6, 1e6)
        tanh = np.tanh(np.sqrt(2 / WIDE(np.pi)) * (wide + WIDE("0.044715") * wide**3))
        inner = np.sqrt(2 / WIDE(np.pi)) * (1 + 3 * WIDE("0.044715") * wide**2)
        value, gradient = package.gelu(x, "tanh")
        yield value, x * (1 + tanh) / 2, abs(x)
        slope = (1 + tanh + wide * (1 - tanh**2) * inner) / 2
        yield gradient(g, [True])[0], g * slope, abs(g) * (1 + abs(wide * inner) ** 2 * (1 - tanh**2))
        integral = np.array([math.erfc(-float(v) / math.sqrt(2)) / 2 for v in wide], WIDE)
        density = np.exp(-wide * wide / 2) / np.sqrt(2 * WIDE(np.pi))
        value, gradient = package.gelu(x, "none")
        yield value, x * integral, abs(x)
        slope = integral + wide * density
        yield gradient(g, [True])[0], g * slope, abs(g) * (1 + (1 + wide * wide) * abs(wide) * density)


def of_norms(package, dtype, has_mean):
    for eps, rows in ((1e-5, 3), (0.0, 3), (0.0, 1), (1e-5, 200)):
        for x in inputs((rows, 24), dtype):
            w = draw(24, seed=1, dtype=dtype)
            b = draw(24, seed=2, dtype=dtype)
            g = draw(rows, 24, seed=9, dtype=dtype)
            wide = x.astype(WIDE)
            near = wide - wide[:, :1]  # exact: 1e8 leaves a mean of long doubles too few digits
            d = near - total(near) / 24 if has_mean else wide
            inverse = 1 / np.sqrt(total(d * d) / 24 + eps)
            if not np.isfinite(inverse).all() or (abs(d).max(-1) == 0).any():
                continue  # a row of variance 0
            h = d * inverse
            size = abs(h) + total(abs(h)) / 24  # what a number and what the mean has
            u = g * w.astype(WIDE)
            arrays = (x, w, b) if has_mean else (x, w)
            kernel = package.layer_norm if has_mean else package.rms_norm
            value, gradient = kernel(*arrays, (24,), eps)
            yield value, h * w + (b if has_mean else 0), size * abs(w) + (abs(b) if has_mean else 0)
            found = gradient(g, [True] * 3)
            mean_u = total(u) / 24 if has_mean else 0
            bound = abs(u) + (total(abs(u)) / 24 if has_mean else 0) + size * total(abs(u) * size) / 24
            yield found[0], inverse * (u - mean_u - h * (total(u * h) / 24)), inverse * bound
            yield found[1], (g * h).sum(0), (abs(g) * size).sum(0)
            if has_mean:
                yield found[2], g.astype(WIDE).sum(0), abs(g).sum(0)


def of_layer_norm(package, dtype):
    yield from of_norms(package, dtype, True)


def of_rms_norm(package, dtype):
    yield from of_norms(package, dtype, False)


def of_products(package, dtype):
    for m in (1e-15, 1.0, 1e15):
        x, w, b = (draw(*s, seed=i, scale=m, dtype=dtype) for i, s in enumerate([(40, 64), (48, 64), (48,)]))
        g = draw(40, 48, seed=9, dtype=dtype)
        X, W = (x.astype(WIDE), w.astype(WIDE))
        value, gradient = package.linear(x, w, b)
        yield value, X @ W.T + b, abs(X) @ abs(W.T) + abs(b)
        dx, dw, db = gradient(g, (True, True, True))
        yield dx, g @ W, abs(g) @ abs(W)
        yield dw, g.T @ X, abs(g.T) @ abs(X)
        yield db, g.astype(WIDE).sum(0), abs(g).sum(0)
        yield matmul_arrays(x, w.T), X @ W.T, abs(X) @ abs(W.T)


def of_embedding(package, dtype):
    ids = np.array([[1, 4, 1], [0, 1, 4]])
    weight = spread(5, 3, dtype=dtype)
    g = spread(2, 3, 3, seed=9, dtype=dtype)
    value, gradient = package.embedding(weight, ids)
    yield value, weight[ids], 0
    once = (ids.reshape(-1)[:, None] == np.arange(5)).T.astype(WIDE)
    yield gradient(g, [True, False])[0], once @ g.reshape(6, 3), once @ abs(g).reshape(6, 3)


def of_dropout(package, dtype):
    x = spread(400, dtype=dtype)
    value, (gradient,) = package.dropout(x, 0.25, mg.random.Key(1, 2, 3, 4))
    keep = gradient(np.ones_like(x)) != 0
    yield value, np.where(keep, x / WIDE(0.75), 0), abs(x) * keep * 2


def of_pooling(package, dtype):
    x = spread(4, 9, dtype=dtype)
    places = np.arange(3)[:, None] + np.array([[0, 3, 6]])
    found, _ = ops["largest_place"].rule(x, places)
    chosen = np.take_along_axis(x, np.asarray(found), 1)
    yield chosen, x.reshape(4, 3, 3).max(-1), 0


def attention_in_float64(q, k, v, g, mask, causal, scale):
    """The definition, its gradients, and their bounds: a score is off by the size of its terms."""
    q, k, v, g = (x.astype(WIDE) for x in (q, k, v, g))
    t = lambda x: x.swapaxes(-1, -2)
    s = q @ t(k) * WIDE(scale)
    error = abs(q) @ t(abs(k)) * WIDE(scale)
    if mask is not None:
        s = s + np.where(mask, 0, -np.inf) if mask.dtype == bool else s + mask
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    p, d, shift = softmax_of(s)
    grown = 1 + np.where(np.isfinite(d), abs(d), 0) + error + total(p * error) + shift
    w = p
    dw = g @ t(v)
    W = p * grown
    dW = abs(g) @ t(abs(v))
    ds = w * (dw - total(dw * w))
    dS = W * (dW + total(dW * W))
    values = w @ v, ds @ k * WIDE(scale), t(ds) @ q * WIDE(scale), t(w) @ g
    bounds = W @ abs(v), dS @ abs(k) * WIDE(scale), t(dS) @ abs(q) * WIDE(scale), t(W) @ abs(g)
    return values, bounds


def of_attention(package, dtype):
    mask = np.random.default_rng(3).random((2, 1, 1, 40)) > 0.3
    mask[..., 0] = True
    for m, size in ((1e-15, 1e-20), (1.0, 1.0), (1e15, 1e20), (1.0, 1e-30), (1.0, 1e30)):
        for queries, given, causal in (
            (40, None, True),
            (40, mask, False),
            (1, mask, False),
            (9, None, False),
        ):
            q = draw(2, 3, queries, 16, scale=m, dtype=dtype)
            g = draw(2, 3, queries, 16, seed=9, dtype=dtype)
            k = draw(2, 3, 40, 16, seed=1, scale=1 / m, dtype=dtype)
            v = draw(2, 3, 40, 16, seed=2, scale=size, dtype=dtype)
            values, bounds = attention_in_float64(q, k, v, g, given, causal, 0.25)
            value, gradient = package.scaled_dot_product_attention(q, k, v, given, causal, 0.25, 0.0, None)
            found = value, *gradient(g, (True, True, True, False))[:3]
            yield from zip(found, values, bounds, strict=True)
    for offset in (0.0, 1e8):  # masks of numbers, and no axis of heads: rows of scores
        q, k, v, g = (draw(2, 7, 7, seed=i, dtype=dtype) for i in (0, 1, 2, 9))
        q *= 1 if not offset else 0
        given = np.full((7, 7), offset, dtype)
        values, bounds = attention_in_float64(q, k, v, g, given, False, 0.25)
        value, gradient = package.scaled_dot_product_attention(q, k, v, given, False, 0.25, 0.0, None)
        found = value, *gradient(g, (True, True, True, False))[:3]
        yield from zip(found, values, bounds, strict=True)


def attention_of(package):
    """The module whose work on rows of scores a set's attention does."""
    path = {"jit": "numba", "numpy": "numpy"}[package.which]
    return importlib.import_module(f"minigrad.kernels.{path}.attention")


def of_attention_softmax(package, dtype):
    for x in inputs((2, 7, 7), dtype):
        for causal in (False, True):
            s = np.where(np.tri(7, dtype=bool) | (not causal), x.astype(WIDE), -np.inf)
            found = x.copy()
            logarithms = attention_of(package).attention_softmax(found, 0 if causal else None)
            p, d, shift = softmax_of(s)
            yield found, p, p * (1 + np.where(np.isfinite(d), abs(d), 0))
            y = (s.max(-1, keepdims=True) + shift)[..., 0]
            yield logarithms, y, abs(y) + 1


def of_cells(package, dtype):
    """One step from a state; gates are off by the size of what they add up."""
    sigmoid = lambda a: 1 / (1 + np.exp(-a))
    for m in (1e-30, 1e-10, 1e-3, 1.0, 5.0):
        for kind, gates in (("rnn", 1), ("lstm", 4), ("gru", 3)):
            x = draw(1, 3, 6, scale=m, dtype=dtype)
            h = draw(3, 32, seed=1, dtype=dtype)
            w, u = (draw(32 * gates, n, seed=n, scale=0.3, dtype=dtype) for n in (6, 32))
            b = draw(32 * gates, seed=4, scale=m, dtype=dtype)
            c = draw(3, 32, seed=5, scale=m, dtype=dtype)
            first = (h, c) if kind == "lstm" else (h,)
            value, gradient = getattr(package, kind)(x, *first, w, u, b, np.zeros_like(b), None)
            X, H, C, W, U = (v.astype(WIDE) for v in (x[0], h, c, w, u))
            a = X @ W.T + b
            r = H @ U.T
            far = (abs(X) @ abs(W.T) + abs(b) + abs(H) @ abs(U.T)).max()
            g = draw(3, 32, seed=9, dtype=dtype)
            gc = draw(3, 32, seed=8, dtype=dtype)
            apart = np.split(a + r, gates, axis=1)
            past = 0  # of the gradient of h, what does not pass a gate
            if kind == "rnn":
                y = np.tanh(a + r)
                da = from_h = g * (1 - y * y)
            elif kind == "lstm":
                i = sigmoid(apart[0])
                f = sigmoid(apart[1])
                o = sigmoid(apart[3])
                n = np.tanh(apart[2])
                cell = f * C + i * n
                y = o * np.tanh(cell)
                t = np.tanh(cell)
                yield value[2], cell, (abs(f * C) + i) * (1 + far)
                dc = gc + g * o * (1 - t * t)
                parts = [
                    dc * n * i * (1 - i),
                    dc * C * f * (1 - f),
                    dc * i * (1 - n * n),
                    g * t * o * (1 - o),
                ]
                da = from_h = np.concatenate(parts, 1)
            else:
                reset, z = map(sigmoid, apart[:2])
                m_h = r[:, 64:]
                n = np.tanh(a[:, 64:] + reset * m_h)
                y = (1 - z) * n + z * H
                past = g * z
                dn = g * (1 - z) * (1 - n * n)
                parts = [dn * m_h * reset * (1 - reset), g * (H - n) * z * (1 - z), dn]
                da = np.concatenate(parts, 1)
                from_h = np.concatenate([*parts[:2], dn * reset], 1)
            yield value[0][0], y, 1 + far + abs(H)
            yield value[1], y, 1 + far + abs(H)
            found = gradient(
                [np.zeros_like(value[0]), g, gc][: len(value)], [True] * (4 + len(value)) + [False]
            )
            bound = np.tile((abs(g) + abs(gc)) * (1 + far) * (1 + abs(H) + abs(C)), gates)
            yield found[0][0], da @ W, bound @ abs(W)
            yield found[1], from_h @ U + past, bound @ abs(U) + abs(past)


def of_adam(package, dtype):
    numbers = (1e-3, 0.1, 0.999, 1e-3, 1.5, 1e-8, 0.9, 0.01)
    numbers = tuple(WIDE(dtype.type(n)) for n in numbers)
    rate, c1, b2, c2, root, eps, shrink, decay = numbers
    for m in (1e-10, 1e-3, 1.0, 1e10, 1e18, 1e20):
        p, g, first = (draw(50, seed=i, scale=m, dtype=dtype) for i in range(3))
        second = (
            draw(50, seed=3, scale=min(m, 1e17) ** 2, dtype=dtype) ** 2 if m < 1e9 else np.zeros(50, dtype)
        )
        P, G, M, V = (v.astype(WIDE) for v in (p, g, first, second))
        package.adam(p, g, first, second, tuple(map(float, numbers)))
        x = P * shrink
        d = G + decay * x
        wide = abs(G) + abs(decay * x)
        new = M + c1 * (d - M)
        new_v = b2 * V + c2 * d * d
        yield first, new, abs(M) + c1 * (wide + abs(M))
        yield second, new_v, b2 * V + c2 * wide * wide
        step = rate / (root * np.sqrt(new_v) + eps)
        bound = step * (abs(M) + c1 * (wide + abs(M))) * (1 + wide / np.where(d == 0, 1, abs(d)))
        yield p, x - step * new, abs(x) + bound


def of_clipping(package, dtype):
    for m in MAGNITUDES:
        arrays = [
            draw(5, 3, scale=m, dtype=dtype),
            np.zeros(3, dtype),
            draw(40, seed=1, scale=m, dtype=dtype),
        ]
        wide = np.concatenate(arrays, axis=None, dtype=WIDE)
        norm = package.total_norm(arrays, False)
        yield np.asarray(norm, dtype), np.sqrt((wide * wide).sum()), np.sqrt((wide * wide).sum())
        yield np.asarray(package.total_norm(arrays, True), dtype), abs(wide).max(), 0
        out = np.empty(58, dtype)
        package.flatten(arrays, out)
        yield out, wide, 0
        package.scale(arrays, norm, norm / 4)
        factor = WIDE(norm / 4) / (WIDE(norm) + WIDE(1e-6))
        yield np.concatenate(arrays, axis=None), wide * factor, abs(wide * factor)


def of_quantized_products(package, dtype):
    weight = np.random.default_rng(1).integers(-127, 128, (5, 21)).astype(np.int8)
    scale = abs(draw(5, seed=2, dtype=dtype)) + dtype.type(0.1)
    for x in inputs((3, 21), dtype):
        g = draw(3, 5, seed=9, dtype=dtype)
        value, gradient = package.quantized_linear(x, weight, scale, None)
        wide = weight.astype(WIDE) * scale.astype(WIDE)[:, None]
        yield value, x.astype(WIDE) @ wide.T, abs(x).astype(WIDE) @ abs(wide).T
        found = gradient(g, [True, False, False, False])[0]
        yield found, g.astype(WIDE) @ wide, abs(g).astype(WIDE) @ abs(wide)


CASES = {
    "softmax": of_softmax,
    "log_softmax": of_log_softmax,
    "logsumexp": of_logsumexp,
    "cross_entropy": of_cross_entropy,
    "relu": of_relu,
    "gelu": of_gelu,
    "layer_norm": of_layer_norm,
    "rms_norm": of_rms_norm,
    "linear": of_products,
    "quantized_linear": of_quantized_products,
    "embedding": of_embedding,
    "dropout": of_dropout,
    "largest_place": of_pooling,
    "scaled_dot_product_attention": of_attention,
    "attention_softmax": of_attention_softmax,
    "rnn lstm gru": of_cells,
    "adam": of_adam,
    "total_norm scale flatten": of_clipping,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_kernels_match_definitions_at_all_magnitudes(name, which, dtype):
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        for found, expected, bound in CASES[name](jit if which == "jit" else cpu, dtype):
            close(found, expected, bound, dtype)


def test_every_kernel_has_cases():
    above = {
        "attention_softmax",
        "flatten",
        "largest_place",
        "scale",
    }  # what kernels or definitions are made of
    assert {name for names in CASES for name in names.split()} - above == registered("numpy")


# ---------------------------------------------------------------- what compiled loops are made of


@needs_numba
def test_elementary_functions_at_all_magnitudes():
    from minigrad.kernels.numba.mathematics import exp, exp_below, logistic, loop, tanh

    @loop
    def each(x, below, y, z, s, t):
        for i in range(x.size):
            y[i], z[i], s[i], t[i] = exp(x[i]), exp_below(below[i]), logistic(x[i]), tanh(x[i])

    x = np.concatenate([np.linspace(-87, 88, 3001), spread(200).clip(-1e30, 1e30)]).astype(np.float32)
    wide = x.astype(WIDE)
    found = [np.empty_like(x) for _ in range(4)]
    with np.errstate(all="ignore"):
        each(x, -abs(x), *found)
        expected = np.exp(wide), np.exp(-abs(wide)), 1 / (1 + np.exp(-wide)), np.tanh(wide)
        for y, value in zip(found, expected, strict=True):
            close(y, value, abs(value), np.float32)


def loops():
    """All compiled loops of the package."""
    package = mg.kernels.numba
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                yield value


@needs_numba
def test_only_sums_use_reassociating_fast_math():
    """No loop has a flag but "contract"; the addition of `accumulate` alone may be reordered."""
    for loop in loops():
        flags = loop.targetoptions["fastmath"]
        expected = {"contract", "reassoc"} if loop.py_func.__name__ == "accumulate" else {"contract"}
        assert getattr(flags, "flags", flags) == expected, loop


# ---------------------------------------------------------------- what is not a kernel


SPREADS = {
    "std": (lambda x: x.std(-1), lambda x: x.std(-1, ddof=1)),
    "norm": (lambda x: x.norm(dim=-1), lambda x: np.sqrt((x * x).sum(-1))),
    "norm of order 3": (lambda x: mg.norm(x, 3, dim=-1), lambda x: np.cbrt((abs(x) ** 3).sum(-1))),
    "norm of order -2": (
        lambda x: mg.linalg.vector_norm(x, -2, dim=-1),
        lambda x: ((1 / x / x).sum(-1)) ** -0.5,
    ),
    "normalize": (lambda x: F.normalize(x, dim=-1, eps=0.0), lambda x: x / np.sqrt(total(x * x))),
    "cdist": (lambda x: mg.cdist(x[:1], x[1:])[0], lambda x: np.sqrt(((x[:1] - x[1:]) ** 2).sum(-1))),
    "dist": (lambda x: mg.dist(x[0], x[1]), lambda x: np.sqrt(((x[0] - x[1]) ** 2).sum(-1))),
    "pdist": (lambda x: F.pdist(x[:2]), lambda x: np.sqrt(((x[:1] - x[1:2]) ** 2).sum(-1))),
    "cosine_similarity": (
        lambda x: F.cosine_similarity(x[0], x[1], 0, eps=0.0),
        lambda x: (x[0] * x[1]).sum() / np.sqrt((x[0] ** 2).sum()) / np.sqrt((x[1] ** 2).sum()),
    ),
    "clip_grad_norm_": (lambda x: clipped(x), lambda x: np.sqrt((x * x).sum())),
}  # fmt: skip


def clipped(x):
    p = mg.zeros(x.shape, dtype=str(x.dtype), requires_grad=True)
    p.grad = x.detach().clone()
    return mg.nn.utils.clip_grad_norm_([p], math.inf)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SPREADS)
def test_norms_do_not_overflow_or_underflow(name, dtype):
    """With gradients that PyTorch has of the same numbers in float64, where it can be asked: a finite one."""
    ours, definition = SPREADS[name]
    powers = (-30, -25, -19, -10, 0, 10, 19, 25, 30) if dtype == "float32" else (-250, -160, 0, 160, 250)
    with np.errstate(all="ignore"):
        for power in powers:
            unit = draw(3, 17, dtype=dtype).astype(WIDE)
            x = (unit * WIDE(10) ** power).astype(dtype)
            t = mg.tensor(x, requires_grad=True)
            y = ours(t)
            expected = definition(x.astype(WIDE))
            close(
                y.detach().numpy(),
                expected,
                abs(expected) + (1 if name == "cosine_similarity" else 0),
                np.dtype(dtype),
            )
            if y.requires_grad:
                y.sum().backward()
                smaller = mg.tensor(unit.astype("float64"), requires_grad=True)
                ours(smaller).sum().backward()  # lengths grow with x, directions do not
                change = WIDE(10) ** (0 if name not in ("normalize", "cosine_similarity") else -power)
                bound = abs(smaller.grad.numpy()).max() * change
                if bound < np.finfo(dtype).max / 8:
                    close(t.grad.numpy(), smaller.grad.numpy() * change, bound * 8, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
def test_unfused_definitions_are_accurate_for_large_logits(name, dtype):
    """Also with logits of which all that differs is far behind the first digit."""

    def run(x, *settings):
        t = mg.tensor(x, requires_grad=True)
        arguments = [mg.tensor(s) if isinstance(s, np.ndarray) else s for s in settings]
        call = {
            "softmax": F.softmax,
            "log_softmax": F.log_softmax,
            "logsumexp": mg.logsumexp,
            "cross_entropy": lambda x, target, ignored, how, smoothing: F.cross_entropy(
                x, target, ignore_index=ignored, reduction=how, label_smoothing=smoothing
            ),
        }[name]
        y = call(t, *arguments)
        return y.detach().numpy(), lambda g, needs: [mg.autograd.grad(y, [t], mg.tensor(g))[0].numpy()]

    package = type("definition", (), {name: staticmethod(run)})
    with mg.fused(False), np.errstate(all="ignore"):
        for found, expected, bound in CASES[name](package, np.dtype(dtype)):
            close(found, expected, bound, np.dtype(dtype))


@pytest.mark.parametrize("which", BOTH)
def test_log_softmax_of_two_equal_logits_is_log_half(which):
    for v in (1.0, 1e4, 1e6, 1e8, 1e30):
        x = mg.tensor([[v, v]], requires_grad=True)
        with kernels.use(which):
            y = F.log_softmax(x, -1)
            y[0, 0].backward()
            losses = [
                F.nll_loss(y.detach(), mg.tensor([0])),
                F.cross_entropy(x.detach(), mg.tensor([0]), weight=mg.ones(2)),
                F.cross_entropy(x.detach(), mg.tensor([[1.0, 0.0]])),
                F.cross_entropy(x.detach(), mg.tensor([0])),
            ]
        np.testing.assert_allclose(y.detach().numpy(), [[-math.log(2)] * 2], rtol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), [[0.5, -0.5]], rtol=1e-6)
        np.testing.assert_allclose([loss.item() for loss in losses], math.log(2), rtol=1e-6)


@needs_numba
def test_recurrent_kernels_propagate_nan_gates():
    """One weight that is NaN, of a gate that a sigmoid closes."""
    for kind, gates in (("lstm", 4), ("gru", 3)):
        for gate in range(gates):
            w = draw(4 * gates, 3)
            u = draw(4 * gates, 4, seed=1)
            b = draw(4 * gates, seed=2)
            w[gate * 4] = np.nan
            first = [draw(2, 4, seed=i) for i in range(2 if kind == "lstm" else 1)]
            for package in (jit, cpu):
                value, _ = getattr(package, kind)(draw(1, 2, 3, seed=5), *first, w, u, b, b, None)
                assert np.isnan(value[0][0, :, 0]).all()
                assert not np.isnan(value[0][0, :, 1:]).any()


@pytest.mark.parametrize("which", BOTH)
def test_an_ignored_row_has_no_gradient(which):
    x = np.array([[88.6, 89.0, 3e38, np.nan, 0, 1]], np.float32).repeat(2, 0)
    x[1] = 1
    _, gradient = Kernels(which).cross_entropy(x, np.array([-100, 1]), -100, "mean", 0.0)
    assert not gradient(np.float32(1), [True, False])[0][0].any()


@pytest.mark.parametrize("x", [1e-30, 1e-3, 3.0, 1e10, 1e20, 1e30])
def test_inverse_derivatives_survive_extreme_values(x):
    t = mg.tensor(x, requires_grad=True)
    x = float(np.float32(x))
    one = lambda y: mg.autograd.grad(y, [t])[0].item()
    np.testing.assert_allclose(one(mg.asinh(t)), 1 / math.hypot(x, 1), rtol=1e-6)
    if x > 1:
        np.testing.assert_allclose(one(mg.acosh(t)), 1 / math.sqrt(x * x - 1), rtol=1e-6)
    np.testing.assert_allclose(one(mg.atan2(t, mg.tensor(2 * x))), 0.4 / x, rtol=1e-6)
    np.testing.assert_allclose(one(mg.atan2(mg.tensor(2 * x), t)), -0.4 / x, rtol=1e-6)


def test_cosine_embedding_loss_of_long_vectors():
    x, y = (draw(3, 4, seed=i, scale=1e10) for i in range(2))
    cosine = (
        (x * y.astype(float)).sum(-1)
        / np.linalg.norm(x.astype(float), axis=-1)
        / np.linalg.norm(y.astype(float), axis=-1)
    )
    found = F.cosine_embedding_loss(mg.tensor(x), mg.tensor(y), mg.tensor([1, 1, 1]), reduction="none")
    np.testing.assert_allclose(found.numpy(), 1 - cosine, rtol=1e-5)
