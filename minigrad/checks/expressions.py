"""Simple expressions of the values that a derivative may depend on, evaluated at the entries of a Jacobian.

An entry d y_i / d x_j belongs to an output element i and an input element j. An expression has a number for
each entry, computed from the input x_j, the output y, another input, or a sum of one of these along axes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from .evidence import Derivative, Evidence, subsets

ROUNDING = 1e-5  # the relative error of entries by finite differences
EPS = 2e-4  # the relative difference that an eps of 1e-5, added to a variance, makes
ERF = np.vectorize(math.erf, otypes=[float])
MOST_POINTS = 60  # the most points that a search for products uses


class Quantity(NamedTuple):
    """A quantity at each entry, with its name."""

    name: str
    values: np.ndarray
    inner: bool = False  # whether it is taken at the output's index, in a function that couples elements
    whole: bool = False  # whether it is a sum along axes, or computed from one
    tolerance: float = ROUNDING

    @property
    def bare(self) -> str:
        return bare(self.name)


def bare(name: str) -> str:
    """Return a name as a factor: in parentheses, unless it is a word or a call."""
    return f"({name})" if " " in name and not re.fullmatch(r"\w+\(.*\)", name) else name


class Expression(NamedTuple):
    """A formula of a quantity, and its value at each entry."""

    form: str  # with {n} for the quantity's name, and {} for it as a factor, such as "{} (1 - {n})"
    quantity: Quantity
    values: np.ndarray

    @property
    def text(self) -> str:
        return self.form.replace("{n}", self.quantity.name).replace("{}", self.quantity.bare)


class Match(NamedTuple):
    """A match of a target: k times a product of expressions."""

    k: float
    factors: tuple[Expression, ...]

    @property
    def text(self) -> str:
        """The product without k, such as "x (1 - y)", with divisors last."""
        texts = [e.text for e in self.factors]
        tops = [t for t in texts if not t.startswith("1 / ")]
        return " / ".join([" ".join(tops) or "1", *(t[4:] for t in texts if t.startswith("1 / "))])

    @property
    def formula(self) -> str:
        """The product times g, such as "2 g x" or "-g / x"."""
        text = self.text
        text = f"g{text[1:]}" if text.startswith("1 / ") else f"g {text}"
        return f"{coefficient(self.k)}{text}"

    def uses(self) -> set[str]:
        return {e.quantity.name for e in self.factors}


def coefficient(k: float) -> str:
    """Format k as a coefficient before a factor: "2 ", "1/2 ", "-" for -1, or "" for 1."""
    if abs(k) == 1:
        return "" if k == 1 else "-"
    plain = Fraction(k).limit_denominator(1000)
    return f"{plain} " if abs(plain - k) < 1e-9 else f"{k:.6g} "


def legend(*texts: str) -> str:
    """Explain the names x and y in formulas: ", where x is this input and y is the output"."""
    names = {"x": "x is this input", "y": "y is the output"}
    said = [what for name, what in names.items() if any(re.search(rf"\b{name}\b", text) for text in texts)]
    return f", where {' and '.join(said)}" if said else ""


# ---------------------------------------------------------------- the expressions

Form = tuple[str, Callable[[np.ndarray], np.ndarray]]

# in this order, the first match is the simplest
POLYNOMIALS: list[Form] = [
    ("{}", lambda v: v),
    ("{}^2", lambda v: v * v),
    ("1 / {}", lambda v: 1 / v),
    ("1 / {}^2", lambda v: 1 / (v * v)),
    ("(1 - {n})", lambda v: 1 - v),
    ("(1 + {n})", lambda v: 1 + v),
    ("(1 - {}^2)", lambda v: 1 - v * v),
    ("(1 + {}^2)", lambda v: 1 + v * v),
    ("1 / (1 - {n})", lambda v: 1 / (1 - v)),
    ("1 / (1 + {n})", lambda v: 1 / (1 + v)),
    ("1 / (1 - {}^2)", lambda v: 1 / (1 - v * v)),
    ("1 / (1 + {}^2)", lambda v: 1 / (1 + v * v)),
    ("log({n})", np.log),
    ("{} (1 - {n})", lambda v: v * (1 - v)),
    ("{} (1 + {n})", lambda v: v * (1 + v)),
    ("{}^3", lambda v: v**3),
    ("exp({n})", np.exp),
    ("exp(-{n})", lambda v: np.exp(-v)),
]
FUNCTIONS: list[Form] = [
    ("exp(-{}^2)", lambda v: np.exp(-v * v)),
    ("exp({n} - 1)", lambda v: np.exp(v - 1)),
    ("sin({n})", np.sin),
    ("cos({n})", np.cos),
    ("tanh({n})", np.tanh),
    ("(1 - tanh({n})^2)", lambda v: 1 / np.cosh(v) ** 2),
    ("sigmoid({n})", lambda v: 1 / (1 + np.exp(-v))),
    ("sigmoid({n}) (1 - sigmoid({n}))", lambda v: np.exp(-v) / (1 + np.exp(-v)) ** 2),
    ("sqrt({n})", np.sqrt),
    ("1 / sqrt({n})", lambda v: 1 / np.sqrt(v)),
    ("Phi({n})", lambda v: (1 + ERF(v / math.sqrt(2))) / 2),
    ("phi({n})", lambda v: np.exp(-v * v / 2) / math.sqrt(2 * math.pi)),
]
NORMALIZERS: list[Form] = POLYNOMIALS[:4]


def expressions(quantities: Sequence[Quantity]) -> list[Expression]:
    """Evaluate every form for every quantity. Expressions that are not finite are left out."""
    found = []
    with np.errstate(all="ignore"):
        for forms in (POLYNOMIALS, FUNCTIONS):
            for quantity in quantities:
                if quantity.whole:
                    continue
                named = quantity.name != "y" or forms is POLYNOMIALS
                for form, function in forms if named else ():
                    found.append(Expression(form, quantity, function(quantity.values)))
        for quantity in quantities:
            for form, function in NORMALIZERS if quantity.whole else ():
                found.append(Expression(form, quantity, function(quantity.values)))
    return [e for e in found if np.isfinite(e.values).all() and np.abs(e.values).max(initial=0.0) < 1e12]


# ---------------------------------------------------------------- the quantities


def quantities_of(d: Derivative, evidence: Evidence, rows: np.ndarray, columns: np.ndarray) -> list[Quantity]:
    """Return the quantities that the entries may depend on.

    `rows` and `columns` are the flat indices of the entries' output and input elements.
    """
    coupled = d.x.shape == d.y.shape and (rows != columns).any()
    found = [Quantity("x", d.x.ravel()[columns])]
    arrays = [("y", d.y), *evidence.others]
    for name, array in arrays:
        if array.size < 2:
            continue
        for shape, index, inner in ((d.x.shape, columns, False), (d.y.shape, rows, coupled)):
            if _fits(array.shape, shape) and (name != "y" or array.shape == shape):
                found.append(Quantity(name, np.broadcast_to(array, shape).ravel()[index], inner))
                if not coupled:
                    break  # at each entry, output and input have the same index
    if coupled:
        found.append(Quantity("x", d.x.ravel()[rows], inner=True))
    found += _sums("x", d.x, d.x.shape, columns)
    for name, array in evidence.others:
        if array.size > 1 and array.ndim == d.y.ndim and _fits(array.shape, d.y.shape):
            found += _sums(name, array, d.y.shape, rows)
    return [q for q in found if np.isfinite(q.values).all()]


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(into), strict=False)
    return 0 < len(shape) <= len(into) and all(n in (1, m) for n, m in pairs)


def _sums(name: str, v: np.ndarray, shape: tuple[int, ...], index: np.ndarray) -> Iterator[Quantity]:
    """Yield sums, norms and deviations along axes, and arrays that are normalized by them."""
    for what, values, tolerance in _sums_along(name, v):
        if _fits(values.shape, shape):
            spread = np.broadcast_to(values, shape).ravel()[index]
            yield Quantity(what, spread, whole=True, tolerance=tolerance)


def _sums_along(name: str, v: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield (name, values with axes kept, tolerance) for each choice of axes."""
    with np.errstate(all="ignore"):
        exponentials = np.exp(v)
        for axes in subsets(v.ndim) if v.ndim < 4 else ():
            size = math.prod(v.shape[axis] for axis in axes)
            if size < 2:
                continue
            total = lambda w, axes=axes: w.sum(axes, keepdims=True)
            sd = v.std(axes, keepdims=True)
            axis = "" if v.ndim == 1 else f", {'axis' if len(axes) == 1 else 'axes'} {_join(axes)}"
            centered = v - v.mean(axes, keepdims=True)
            for what, values, tolerance in (
                ("sd", sd, EPS),
                ("norm", np.sqrt(total(v * v)), EPS),
                ("sum(exp)", total(exponentials), ROUNDING),
                ("sum", total(v), ROUNDING),
                ("sum_of_squares", total(v * v), ROUNDING),
                ("max", v.max(axes, keepdims=True), ROUNDING),
                ("softmax", exponentials / total(exponentials), ROUNDING),
                # left out for two elements, each of which would be 1 or -1
                ("normalize", centered / sd if size > 2 else np.full_like(v, np.nan), EPS),
                ("center", centered, ROUNDING),
            ):
                inside = f"exp({name})" if what == "sum(exp)" else name
                yield f"{what.partition('(')[0]}({inside}{axis})", values, tolerance


def _join(axes: Sequence[int]) -> str:
    return " and ".join(map(str, axes))


# ---------------------------------------------------------------- the search


def simple_number(k: float, lengths: Sequence[int] = ()) -> float:
    """Return k as a simple fraction, or as one over a length; 0 if it is neither."""
    plain = float(Fraction(k).limit_denominator(12))
    inverse = 1 / k if k else 0.0
    length = next((n for n in lengths if abs(abs(inverse) - n) < 1e-3 * n), 0)
    for candidate in (plain, length and np.copysign(1 / length, k)):
        if candidate and abs(candidate) <= 12 and abs(candidate - k) <= 1e-4 * abs(k):
            return candidate
    return 0.0


def fits(target: np.ndarray, expected: np.ndarray, tolerance: float = ROUNDING) -> bool:
    """Return whether two arrays agree up to the rounding of finite differences."""
    least = 1e-7 * float(np.abs(target).max(initial=0.0))
    return bool((np.abs(target - expected) <= tolerance * np.abs(target) + least).all())


def matches(
    target: np.ndarray, base: np.ndarray, found: Sequence[Expression], lengths: Sequence[int] = ()
) -> Iterator[Match]:
    """Yield the expressions e with target = k * e * base, for a simple number k."""
    some = _evenly_spaced(target)
    rows = np.array([e.values[some] for e in found]).reshape(-1, some.size) * base[some]
    for at in proportional(target[some], rows):
        e = found[int(at)]
        distinct = _count_distinct(e.values)
        if distinct < 2:
            continue  # a constant may be any formula
        k = _factor(target, e.values * base, e.quantity.tolerance, lengths)
        # two numbers match many formulas, unless one of them is zero
        if k and (distinct > 2 or abs(k) == 1 or (target.size > 5 and not e.values.all())):
            yield Match(k, (e,))


def products(
    target: np.ndarray, base: np.ndarray, found: Sequence[Expression], lengths: Sequence[int] = ()
) -> Iterator[Match]:
    """Yield the pairs of expressions e, f with target = k * e * f * base, for a simple number k."""
    some = _evenly_spaced(target)
    found = [e for e in found if not e.quantity.whole and _count_distinct(e.values) > 2]
    if len(found) < 2 or _count_distinct(target) < 5:
        return
    values = np.array([e.values[some] for e in found])
    for i, e in enumerate(found[:-1]):
        rows = values[i + 1 :] * (values[i] * base[some])
        for at in proportional(target[some], rows):
            f = found[i + 1 + int(at)]
            number = _factor(target, e.values * f.values * base, ROUNDING, lengths)
            if number:
                yield Match(number, (e, f))


def _evenly_spaced(target: np.ndarray) -> np.ndarray:
    """Return the indices of at most MOST_POINTS entries, for a first search."""
    return np.unique(np.linspace(0, target.size - 1, MOST_POINTS).astype(int))


def proportional(target: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the indices of the rows that are roughly proportional to the target."""
    with np.errstate(all="ignore"):
        k = (rows @ target) / (rows * rows).sum(1)
        off = np.abs(target - k[:, None] * rows)
        return np.flatnonzero((off <= 2 * EPS * np.abs(target) + 1e-6 * np.abs(target).max()).all(1))


def _factor(target: np.ndarray, expected: np.ndarray, tolerance: float, lengths: Sequence[int]) -> float:
    """Return k if target = k * expected for a simple number k, otherwise 0."""
    square = float(expected @ expected)
    if not square or not np.isfinite(square):
        return 0.0
    k = simple_number(float(target @ expected) / square, lengths)
    return k if k and fits(target, k * expected, tolerance) else 0.0


def _count_distinct(values: np.ndarray) -> int:
    """Count the different numbers, where numbers that differ only by rounding count as equal."""
    ordered = np.sort(values)
    return 1 + int((np.diff(ordered) > 1e-3 * np.abs(ordered).max(initial=0.0)).sum())
