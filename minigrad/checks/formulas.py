"""Verdicts from formulas: which simple expression must be added or exchanged to correct a derivative.

The entries of a Jacobian, d y_i / d x_j, are compared with simple expressions of the input x, the output y
and the other inputs (`expressions`). "g (1 - x^2) for g (1 - y^2)" and "a factor 2 x is missing" are found by
the same search for an expression that turns the analytic entries into the numeric ones, up to a simple
number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .evidence import Comparison, Derivative, Evidence, Verdict
from .expressions import (
    ROUNDING,
    Expression,
    Match,
    Quantity,
    coefficient,
    expressions,
    fits,
    legend,
    matches,
    products,
    proportional,
    quantities_of,
    simple_number,
)

MOST_ENTRIES = 1500  # the most entries that a search uses
CHAIN = "Write out the derivative by the chain rule and the product rule, factor by factor."
INNER = "Multiply by the derivative of the inner function: f(u(x)) has the derivative f'(u(x)) u'(x)."


class Entries(NamedTuple):
    """The wrong entries of a derivative, and the expressions that they may depend on."""

    analytic: np.ndarray
    numeric: np.ndarray
    x: np.ndarray
    y: np.ndarray
    aligned: bool  # whether each output is computed from the input at its index
    coupled: np.ndarray  # marks entries between elements at different indices of arrays of one shape
    expressions: list[Expression]
    lengths: list[int]

    def at(self, some: np.ndarray) -> Entries:
        """Return the entries selected by a mask."""
        cut = lambda e: e._replace(
            values=e.values[some], quantity=e.quantity._replace(values=e.quantity.values[some])
        )
        return Entries(
            self.analytic[some], self.numeric[some], self.x[some], self.y[some], self.aligned,
            self.coupled[some], [cut(e) for e in self.expressions], self.lengths,
        )  # fmt: skip


def verdict_of(d: Derivative, evidence: Evidence, where: str = "") -> Verdict | None:
    """Return the verdict on one output's derivative, or None if no formula fits.

    `where` describes the wrong elements; it is added to a formula that fits only them.
    """
    finders = (find_factor, find_term) if evidence.order > 1 else None
    wrong = ~d.same(d.analytic, d.numeric)
    used = (np.abs(d.numeric) > d.tolerance) | (np.abs(d.analytic) > d.tolerance)
    if found := _search(entries_of(d, evidence, used | wrong), finders):
        return found
    some = (used & ~wrong).any() and not _is_coupled(d, used)
    if some and (found := _search(entries_of(d, evidence, wrong), finders)):
        return found._replace(text=f"{found.text}{where}")
    return None


def exchange_in(d: Derivative, evidence: Evidence) -> Verdict | None:
    """Return the verdict on a derivative that uses one quantity where another belongs, otherwise None."""
    entries = entries_of(d, evidence, ~d.same(d.analytic, d.numeric))
    return find_exchange(entries) if entries else None


def _is_coupled(d: Derivative, used: np.ndarray) -> bool:
    """Return whether elements at different indices depend on each other."""
    square = used.reshape(d.y.size, d.x.size)
    return d.x.shape == d.y.shape and bool((square & ~np.eye(d.y.size, dtype=bool)).any())


def _search(entries: Entries | None, finders: Sequence[Finder] | None) -> Verdict | None:
    if entries is None:
        return None
    finders = finders or (COUPLED if entries.coupled.any() else ELEMENTWISE)
    return next((found for find in finders if (found := find(entries))), None)


def entries_of(d: Derivative, evidence: Evidence, chosen: np.ndarray) -> Entries | None:
    """Return the chosen entries; None if they are too few, or all zero in one of the two derivatives."""
    shape = (d.y.size, d.x.size)
    rows, columns = (_thinned(places) for places in np.nonzero(chosen.reshape(shape)))
    a, n = (m.reshape(shape)[rows, columns] for m in (d.analytic, d.numeric))
    wrong = ~d.same(a, n)
    some = all((np.abs(m[wrong]) > d.tolerance).any() for m in (a, n))
    lengths = sorted({n for _, n in evidence.lengths} | {*d.x.shape} - {0})
    return _entries(d, evidence, a, n, rows, columns, d.x.shape == d.y.shape, lengths) if some else None


def verdict_of_gradient(c: Comparison, evidence: Evidence) -> Verdict | None:
    """Return the verdict on the gradient of an array that is too large for a Jacobian; or None."""
    aligned = evidence.weights is not None
    y, g = (evidence.outputs[0], evidence.weights) if aligned else (c.x, np.ones(c.x.shape))
    d = Derivative(c.x, y, c.numeric, c.analytic, c.atol, c.rtol)
    places = _thinned(np.flatnonzero(c.wrong))
    a, n = ((m / g).ravel()[places] for m in (c.analytic, c.numeric))
    found = _entries(d, evidence, a, n, places, places, aligned, [])
    if found is None or not a.any() or not n.any():
        return None
    if not aligned:
        found = found._replace(expressions=[e for e in found.expressions if e.quantity.name != "y"])
    return _search(found, ELEMENTWISE)


def _thinned(places: np.ndarray) -> np.ndarray:
    """Return at most MOST_ENTRIES of the indices, evenly spaced."""
    return (
        places[np.unique(np.linspace(0, places.size - 1, MOST_ENTRIES).astype(int))]
        if places.size
        else places
    )


def _entries(
    d: Derivative, evidence: Evidence, a: np.ndarray, n: np.ndarray, rows: np.ndarray, columns: np.ndarray,
    same_shape: bool, lengths: list[int],
) -> Entries | None:  # fmt: skip
    if rows.size < 3 or not np.isfinite(a).all() or not np.isfinite(n).all():
        return None
    coupled = (rows != columns) & same_shape
    found = expressions(quantities_of(d, evidence, rows, columns))
    x, y = d.x.ravel()[columns], d.y.ravel()[rows]
    return Entries(a, n, x, y, same_shape and not coupled.any(), coupled, found, lengths)


# ---------------------------------------------------------------- exchanged quantities


def find_exchange(entries: Entries) -> Verdict | None:
    """Recognize a derivative f(u) where f(v) is right, for two quantities u and v."""
    right = _by_form(entries.numeric, entries)
    if not right:
        return None
    used = _by_form(entries.analytic, entries)
    for form, wrong in used.items():
        for one in wrong:
            for other in right.get(form, ()):
                u, v = one.factors[0].quantity, other.factors[0].quantity
                if one.k == other.k and u.name != v.name:
                    return _exchanged(u, v, f": {one.formula} for {other.formula}", one.text, other.text)
    return None


def _by_form(target: np.ndarray, entries: Entries) -> dict[str, list[Match]]:
    table: dict[str, list[Match]] = {}
    for match in matches(target, np.ones_like(target), entries.expressions):
        table.setdefault(match.factors[0].form, []).append(match)
    return table


def find_exchanged_roles(entries: Entries) -> Verdict | None:
    """Recognize a derivative e(u) f(v) where e(v) f(u) is right, for two quantities u and v."""
    ones = np.ones_like(entries.numeric)
    if any(next(matches(t, ones, entries.expressions), None) for t in (entries.numeric, entries.analytic)):
        return None
    powers = [e for e in entries.expressions if e.form in ("{}", "{}^2", "1 / {}", "1 / {}^2")]
    right = {_roles(match): match for match in products(entries.numeric, ones, powers)}
    for wrong in products(entries.analytic, ones, powers) if right else ():
        (e, u), (f, v) = _roles(wrong)
        other = right.get(((e, v), (f, u)), right.get(((f, u), (e, v))))
        if other and other.k == wrong.k and u != v and e != f:
            q, r = (part.quantity for part in wrong.factors)
            formulas = f", and the other way round: {wrong.formula} for {other.formula}"
            return _exchanged(q, r, formulas, wrong.text, other.text)
    return None


def _roles(match: Match) -> tuple[tuple[str, str], tuple[str, str]]:
    one, other = ((e.form, e.quantity.name) for e in match.factors)
    return one, other


def find_exchanged_factor(entries: Entries) -> Verdict | None:
    """Recognize a factor f(u) where f(v) is right: numeric f(u) = analytic f(v)."""
    if not entries.numeric.all() or not entries.analytic.all():
        return None
    simple = [e for e in entries.expressions if not e.quantity.whole and not e.form.startswith("1 / ")]
    for e in simple:
        for f in simple:
            u, v = e.quantity, f.quantity
            alike = e.form == f.form and u.name != v.name and u.inner == v.inner
            if not alike or np.ptp(e.values) == 0 or np.ptp(f.values) == 0:
                continue
            if not fits(entries.numeric * e.values, entries.analytic * f.values):
                continue
            # the rest must be a formula too, since a quotient alone may have another origin
            if f.values.all() and _is_formula(entries, entries.numeric / f.values, u.name):
                inside = " in the sum" if u.inner else ""
                return _exchanged(u, v, f"{inside}: a factor {e.text} for {f.text}", e.text, f.text)
    return None


def _is_formula(entries: Entries, target: np.ndarray, without: str) -> bool:
    """Return whether the target is a number or a formula that does not use the quantity `without`."""
    if fits(target, np.full_like(target, target.mean())):
        return True
    found = matches(target, np.ones_like(target), entries.expressions)
    return any(without not in match.uses() for match in found)


def _exchanged(u: Quantity, v: Quantity, formulas: str, *texts: str) -> Verdict:
    names = {"x": "this input", "y": "the output"}
    if {u.name, v.name} == {"x", "y"}:
        names["x"] = "the input"
    one, other = (names.get(q.name, q.name) for q in (u, v))
    return Verdict(
        f"uses {one} where {other} belongs{formulas}{legend(*texts)}",
        "Check which array each factor of the derivative is computed from.",
    )


# ---------------------------------------------------------------- products and chains


def find_product_term(entries: Entries) -> Verdict | None:
    """Recognize one term of the derivative of y = x f(x), which is f(x) + x f'(x), with f(x) = y / x."""
    if not entries.aligned:
        return None
    entries = entries.at(np.abs(entries.x) > 1e-6)
    if entries.x.size < 3:
        return None
    first = entries.y / entries.x
    if np.ptp(first) <= 1e-3 * np.abs(first).max():
        return None
    second = entries.numeric - first
    what = {
        "the second term of a product is missing: the gradient is g f(x)": first,
        "the first term of a product is missing: the gradient is g x f'(x)": second,
        "the first term of a product is missing, and the factor x of the second: the gradient is g f'(x)": (
            second / entries.x
        ),
        "the second term of a product lacks its factor x: the gradient is g (f(x) + f'(x))": (
            first + second / entries.x
        ),
    }
    for text, expected in what.items():
        if fits(entries.analytic, expected):
            factor = next(matches(entries.numeric, entries.analytic, entries.expressions), None)
            if factor and not factor.uses() <= {"x", "y"}:
                return None  # a factor is missing, such as z in the derivative z y / x of x^z
            return Verdict(
                f"{text}, and g (f(x) + x f'(x)) is right for the value x f(x), where x is this input",
                "The product rule has two terms: x f(x) has the derivative f(x) + x f'(x).",
            )
    return None


def explain_factor(c: Comparison, evidence: Evidence) -> str:
    """Describe where a constant factor in an elementwise function may come from: x x, or a chain; or ""."""
    if evidence.weights is None or evidence.order > 1:
        return ""
    entries = Entries(
        (c.analytic / evidence.weights)[c.wrong], (c.numeric / evidence.weights)[c.wrong], c.x[c.wrong],
        evidence.outputs[0][c.wrong], True, np.zeros(c.x.shape, dtype=bool), [], [],
    )  # fmt: skip
    if entries.x.size < 3:
        return ""
    if entries.x.all():
        first = entries.y / entries.x
        varies = np.ptp(first) > 1e-3 * np.abs(first).max()
        if varies and fits(entries.analytic, first) and fits(entries.numeric, 2 * first):
            return "; of the two uses of x in x x, one counts, the other is missing"
    outer = outer_of(entries)
    return f"; the inner derivative of a chain is missing: the gradient is that of {outer}" if outer else ""


class Outer(NamedTuple):
    """An outer function F of a chain y = F(u), with F'(u) computed from y, and F' at x."""

    name: str
    derivative: str  # the formula of F' at {}
    power: int  # F'(u) to this power is `of_value`
    of_value: Callable[[np.ndarray], np.ndarray]
    at: Callable[[np.ndarray], np.ndarray]


OUTER = [
    Outer("exp(u)", "exp({})", 1, lambda y: y, np.exp),
    Outer("tanh(u)", "(1 - tanh({})^2)", 1, lambda y: 1 - y * y, lambda x: 1 - np.tanh(x) ** 2),
    Outer(
        "sigmoid(u)",
        "sigmoid'({})",
        1,
        lambda y: y * (1 - y),
        lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    ),
    Outer("sqrt(u)", "1 / (2 sqrt({}))", 1, lambda y: 1 / (2 * y), lambda x: 0.5 / np.sqrt(x)),
    Outer("log(u)", "1 / {}", 1, lambda y: np.exp(-y), lambda x: 1 / x),
    Outer("1 / u", "-1 / {}^2", 1, lambda y: -y * y, lambda x: -1 / (x * x)),
    Outer("sin(u)", "cos({})", 2, lambda y: 1 - y * y, np.cos),
    Outer("cos(u)", "-sin({})", 2, lambda y: 1 - y * y, lambda x: -np.sin(x)),
    Outer("u^2", "2 {}", 2, lambda y: 4 * y, lambda x: 2 * x),
]


def _is_derivative_of(outer: Outer, values: np.ndarray, y: np.ndarray) -> bool:
    expected = outer.of_value(y)
    if not np.isfinite(expected).all() or not np.isfinite(values).all() or np.ptp(expected) == 0:
        return False
    return fits(values**outer.power, expected, 2 * ROUNDING)


def outer_of(entries: Entries) -> str:
    """Return the names of the functions F with analytic = F'(u) for y = F(u); "" if there is none."""
    if not entries.aligned or entries.x.size < 3:
        return ""
    found = [o for o in OUTER if _is_derivative_of(o, entries.analytic, entries.y)]
    return " or ".join(o.name for o in found if o.power == found[0].power)


def find_chain(entries: Entries) -> Verdict | None:
    """Recognize the derivative of an outer function without the inner derivative, a formula of the inputs."""
    outer = outer_of(entries)
    factor = next(matches(entries.numeric, entries.analytic, entries.expressions), None) if outer else None
    if factor is None or "y" in factor.uses() or factor.factors[0].quantity.whole:
        return None
    if factor.text.startswith("1 / x") and outer in ("exp(u)", "1 / u"):
        return None  # any power of x is a chain exp(k log(x)), so this says nothing
    return Verdict(
        f"the inner derivative of a chain is missing: {_times(factor)}; "
        f"the gradient is that of {outer} with respect to u",
        INNER,
    )


def find_outer_at_input(entries: Entries) -> Verdict | None:
    """Recognize F'(x) u'(x) where F'(u(x)) u'(x) is right, for a u'(x) that is a number or a formula of x."""
    if not entries.aligned or entries.x.size < 3 or not entries.analytic.all():
        return None
    for outer in OUTER:
        at_x = outer.at(entries.x)
        if not np.isfinite(at_x).all() or not at_x.all():
            continue
        inner = entries.analytic / at_x
        if not _is_derivative_of(outer, entries.numeric / inner, entries.y):
            continue
        formula = next(matches(inner, np.ones_like(inner), entries.expressions), None)
        if fits(inner, np.full_like(inner, inner.mean())) or (formula and "y" not in formula.uses()):
            one, other = outer.derivative.format("x"), outer.derivative.format("u")
            return Verdict(
                f"the outer derivative of a chain is taken at the input instead of at the inner function: "
                f"{one} for {other}, where x is this input and the value is {outer.name}",
                "f(u(x)) has the derivative f'(u(x)) u'(x): compute u first, and keep it for the gradient.",
            )
    return None


# ---------------------------------------------------------------- factors and terms


def find_factor(entries: Entries) -> Verdict | None:
    """Recognize a missing factor: numeric = k * e * analytic, for a simple number k and an expression e.

    Return None if no factor fits.
    """
    found = [*matches(entries.numeric, entries.analytic, entries.expressions, entries.lengths)]
    if not found:
        return None
    # prefer a norm or a sum of exponentials of the input to 1 / y or exp(-y) of the output
    of_output = found[0].uses() == {"y"} and not entries.aligned and not entries.coupled.any()
    return _missing_factor(entries, next(filter(_is_normalizer, found), found[0]) if of_output else found[0])


def _is_normalizer(match: Match) -> bool:
    return match.factors[0].quantity.whole and match.factors[0].form.startswith("1 / ")


def _missing_factor(entries: Entries, match: Match) -> Verdict:
    (e, *_) = match.factors
    if e.quantity.inner:
        return Verdict(
            f"a factor is missing: g must be multiplied by {_signed(match)} first, at the output's index"
            f"{legend(match.text)}",
            "The upstream gradient of an inner result is g times what the result is multiplied by.",
        )
    if _is_normalizer(match):
        by = f"{coefficient(1 / match.k)}{match.text[4:]}"
        return Verdict(
            f"a normalizer is missing: numeric = analytic / {by}{legend(match.text)}",
            "What the value is divided by also divides the gradient.",
        )
    if match.text.startswith("1 / "):
        factor = match.text[4:]
        return Verdict(
            f"a factor is missing: {_times(match)}: a factor {factor} too many, or a division by it that "
            f"is missing",
            CHAIN,
        )
    return Verdict(f"a factor is missing: {_times(match)}{_formula_pair(entries)}", CHAIN)


def find_products(entries: Entries) -> Verdict | None:
    """Recognize a missing factor that is a product of two expressions."""
    if match := next(products(entries.numeric, entries.analytic, entries.expressions), None):
        if any(e.quantity.inner for e in match.factors):
            return None
        return Verdict(f"a factor is missing: {_times(match)}", CHAIN)
    return None


def find_term(entries: Entries) -> Verdict | None:
    """Recognize a missing term: numeric = analytic + k * e, for a simple number k and an expression e."""
    if _is_masked(entries):
        return None
    difference = entries.numeric - entries.analytic
    match = next(matches(difference, np.ones_like(difference), entries.expressions, entries.lengths), None)
    if match is None:
        return None
    return Verdict(f"a term is missing: numeric = analytic + g x {_signed(match)}{legend(match.text)}", CHAIN)


def _is_masked(entries: Entries) -> bool:
    """Return whether there is a gradient where the slope is zero, due to a mask rather than a term."""
    least = 1e-7 * float(np.abs(entries.numeric).max(initial=0.0))
    return bool(((np.abs(entries.numeric) <= least) & (np.abs(entries.analytic) > 1e-5)).any())


def find_exchanged_term(entries: Entries) -> Verdict | None:
    """Recognize a term k * e where k * f is right: numeric = analytic + k * (f - e), for expressions e, f."""
    if _is_masked(entries):
        return None
    difference = entries.numeric - entries.analytic
    found = [e for e in entries.expressions if e.form in ("{}", "{}^2", "exp({n})", "1 / {}")]
    values = np.array([e.values for e in found])
    for e in found if entries.numeric.size > 3 else ():
        for at in proportional(difference, values - e.values):
            f = found[int(at)]
            change = f.values - e.values
            if np.ptp(change) <= 1e-3 * np.abs(change).max():
                continue
            k = simple_number(float(difference @ change) / float(change @ change), entries.lengths)
            if k and fits(difference, k * change):
                return Verdict(
                    f"uses {e.text} where {f.text} belongs, in a term of the gradient"
                    f"{legend(e.text, f.text)}",
                    "Check which array each term of the derivative is computed from.",
                )
    return None


def find_formulas(entries: Entries, products_too: bool = False) -> Verdict | None:
    """Recognize both derivatives as simple formulas, or as products of two expressions."""
    right = _formula(entries, entries.numeric, products_too)
    wrong = right and _formula(entries, entries.analytic, products_too)
    if not right or not wrong:
        return None
    return Verdict(
        f"the wrong formula: {wrong.formula} for {right.formula}{legend(wrong.text, right.text)}",
        CHAIN,
    )


def _formula(entries: Entries, target: np.ndarray, products_too: bool) -> Match | None:
    """Return the simplest formula for a derivative, or None."""
    ones = np.ones_like(target)
    whole = lambda match: match.factors[0].quantity.whole
    single = (m for m in matches(target, ones, entries.expressions, entries.lengths) if not whole(m))
    found = next(single, None)
    if found is None and products_too:
        found = next(products(target, ones, entries.expressions, entries.lengths), None)
    return found


def _formula_pair(entries: Entries) -> str:
    """Return "; g x for g / x" if both derivatives are simple formulas, otherwise ""."""
    right = _formula(entries, entries.numeric, False)
    wrong = right and _formula(entries, entries.analytic, False)
    if not right or not wrong:
        return ""
    return f"; {wrong.formula} for {right.formula}"


def _times(match: Match) -> str:
    return f"numeric = analytic x {_signed(match)}{legend(match.text)}"


def _signed(match: Match) -> str:
    """Format a match with its coefficient: "-2 x" or "3 / x"."""
    text = match.text
    if text.startswith("1 / ") and abs(match.k) != 1:
        return f"{coefficient(match.k)}{text[2:]}"
    return f"{coefficient(match.k)}{text}"


# ---------------------------------------------------------------- elements that depend on each other


def find_coupled_exchange(entries: Entries) -> Verdict | None:
    """Recognize u u^T where v v^T is right, or u in the sum where v is right, for two quantities u and v."""
    off = entries.at(entries.coupled)
    if off.numeric.size < 6:
        return None
    if found := find_exchanged_factor(off):
        return found
    outer = {e.quantity.name: e for e in off.expressions if e.form == "{}" and not e.quantity.inner}
    inner = {e.quantity.name: e for e in off.expressions if e.form == "{}" and e.quantity.inner}
    names = [name for name in outer if name in inner]
    for u in names:
        for v in names:
            before = outer[u].values * inner[u].values
            after = outer[v].values * inner[v].values
            if u != v and np.ptp(before) and fits(off.numeric * before, off.analytic * after):
                return _exchanged(outer[u].quantity, outer[v].quantity, "", u, v)
    return None


def find_factor_in_sum(entries: Entries) -> Verdict | None:
    """Recognize a factor that entries between different elements lack, and that belongs into a sum."""
    off = entries.at(entries.coupled)
    if off.numeric.size < 6 or not off.analytic.all():
        return None
    for match in matches(off.numeric, off.analytic, off.expressions):
        (e,) = match.factors
        if e.quantity.whole:
            continue
        text = _signed(match)
        if e.quantity.inner:
            what = f"the sum lacks a factor: sum(g {text}) for sum(g)"
        else:
            what = f"the sum lacks a factor: it must be multiplied by {text}"
        return Verdict(
            f"{what}{legend(match.text)}",
            "Write the sum of the derivative with an index of its own: each term has its own factors.",
        )
    return None


Finder = Callable[[Entries], Verdict | None]
ELEMENTWISE: Sequence[Finder] = (
    find_exchange,
    find_product_term,
    find_chain,
    find_exchanged_roles,
    find_factor,
    find_formulas,
    find_outer_at_input,
    find_exchanged_factor,
    find_term,
    find_exchanged_term,
    partial(find_formulas, products_too=True),
    find_products,
)
COUPLED: Sequence[Finder] = (
    find_factor,
    find_exchanged_factor,
    find_coupled_exchange,
    find_factor_in_sum,
)
