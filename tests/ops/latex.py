"""The LaTeX that ops give for their gradients, evaluated on numbers.

    evaluate(r"g\\,\\sigma(x),\\; g = 2", {"x": x}) -> array

Arithmetic, comparisons in brackets ([x > 0] is 1 or 0), functions, sums and products over indices. Factors
side by side are multiplied element by element, or with `matrices` as matrices, where vectors are columns.
Behind the formula, after commas, names that it uses may be defined.
"""

import math
import re
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

import numpy as np

import minigrad as mg
from minigrad.ops import special_functions as special

SPACE = r"\\[,;:! ]|\s|\\(?:left|right|Big|textstyle|quad|qquad)\b"
TOKEN = re.compile(
    rf"({SPACE})|(\\(?:text|mathrm|operatorname)\{{[^}}]*\}}|\\[a-zA-Z]+|\d+(?:\.\d+)?|[a-zA-Z]+|.)"
)
RELATIONS = {"<": lt, ">": gt, "=": eq, r"\le": le, r"\ge": ge, r"\ne": ne}
GREEK = {r"\alpha": "alpha", r"\beta": "beta", r"\lambda": "lambd", r"\epsilon": "eps"}
CONSTANTS = {r"\pi": math.pi, r"\infty": math.inf, "e": math.e}
TOTALS = {r"\sum": np.sum, r"\prod": np.prod}
ENDS = {"", ")", "]", "}", "|", "+", "-", ",", "&", r"\lor", r"\rVert", r"\rfloor", *RELATIONS}
of_more = lambda function: lambda x: function(mg.tensor(np.asarray(x))).numpy()
FUNCTIONS = {
    r"\ln": np.log, r"\log": np.log, r"\sin": np.sin, r"\cos": np.cos, r"\tan": np.tan, r"\sinh": np.sinh,
    r"\cosh": np.cosh, r"\tanh": np.tanh, r"\sigma": special.sigmoid, "sign": np.sign, "trunc": np.trunc,
    r"\varphi": lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    r"\Phi": lambda x: special.erfc(-x / math.sqrt(2)) / 2, "ndtri": of_more(mg.special.ndtri),
    "erfinv": of_more(mg.erfinv), "sinc": np.sinc, r"\det": lambda a: np.linalg.det(a)[..., None, None],
    "sym": lambda a: (a + a.swapaxes(-1, -2)) / 2, "rowsum": lambda a: a.sum(-1, keepdims=True),
    "tril": np.tril, "triu": np.triu, "lower": lambda a: np.tril(a) - np.tril(np.triu(a)) / 2,
    "diag": lambda v: v[..., None] * np.eye(v.shape[-1]),
}  # fmt: skip


class Identity:
    """The identity matrix, of the size of what it is added to."""


class Scope(NamedTuple):
    """What names and functions mean."""

    env: dict
    definitions: dict  # name -> tokens
    functions: dict
    matrices: bool


def evaluate(latex, env, functions=None, matrices=False, axes=(-1,), others=()):
    """The value of a formula; `axes` are those of a mean, a norm or a softmax; `others` may define names."""
    along = lambda f: lambda x: f(x, axis=axes, keepdims=True)
    known = {"softmax": lambda x: _softmax(x, axes), "var": along(np.var), "mean": along(np.mean)}
    known["norm"] = lambda x: np.sqrt((x * x).sum(axis=axes, keepdims=True))
    formulas = [latex, *others]
    names = {name for name in env if len(name) > 1}.union(*[re.findall(r"(\w+) =", f) for f in formulas])
    read = [_parts(_tokens(f, names)) for f in formulas]
    definitions = {GREEK.get(name, name): tokens for _, *rest in read for name, _, *tokens in rest}
    scope = Scope(env, definitions, FUNCTIONS | known | (functions or {}), matrices)
    return _Reader(read[0][0], scope).whole()


def _softmax(x, axes):
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


def _tokens(latex, names):
    """Words are split into names that are known and letters."""
    known = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
    found = []
    for space, token in TOKEN.findall(latex):
        if not space:
            found += re.findall(rf"{known}|.", token) if token.isalpha() else [token]
    return found


def _parts(tokens):
    """Lists of tokens between the commas that are not within brackets."""
    parts = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{") - (token in ")]}")
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class _Reader:
    """Each method reads a part of a formula and returns its value."""

    def __init__(self, tokens, scope):
        self.tokens = tokens
        self.scope = scope
        self.place = 0

    @property
    def next(self):
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def read(self, expected=None):
        token = self.next
        assert token == (expected or token) != "", f"expected {expected}, found {token!r} at {self.place}"
        self.place += 1
        return token

    def accept(self, token):
        return self.next == token and self.read()

    def whole(self):
        value = self.expression()
        assert not self.next, f"left over: {self.tokens[self.place :]}"
        return value

    def of(self, tokens, **indices):
        """A reader of other tokens, in which indices have numbers."""
        return _Reader(tokens, self.scope._replace(env=self.scope.env | indices))

    def expression(self):
        value = -self.product() if self.accept("-") else self.product()
        while self.next in ("+", "-"):
            operate = np.add if self.read() == "+" else np.subtract
            other = self.product()
            value = np.eye(other.shape[-1]) if isinstance(value, Identity) else value
            other = np.eye(value.shape[-1]) if isinstance(other, Identity) else other
            value = operate(value, other)
        return value

    def product(self):
        value = self.factor()
        while self.next not in ENDS:
            if self.accept("/"):
                value = value / self.factor()
            elif self.accept(r"\times"):
                value = self.scope.functions["cross"](value, self.factor())
            else:
                by_element = self.accept(r"\odot") or not self.scope.matrices
                other = self.factor()
                numbers = any(not np.ndim(x) or np.shape(x)[-2:] == (1, 1) for x in (value, other))
                value = value * other if by_element or numbers else value @ other
        return value

    def factor(self):
        token = self.read()
        if token in TOTALS:
            return self.over_an_index(TOTALS[token])
        name = re.sub(r"\\operatorname\{(.*)\}", r"\1", token)
        if name in FUNCTIONS or token.startswith(r"\operatorname") or token == r"\psi":
            return self.function(name)
        return self.power(self.atom(token))

    def power(self, base):
        while self.accept("^"):
            group = self.group()
            if group[-1] == r"\top":
                base = (np.linalg.inv(base) if group[0] == "-" else base).swapaxes(-1, -2)
                continue
            exponent = self.of(group).whole()
            is_inverse = self.scope.matrices and np.ndim(base) > 1 and exponent == -1
            base = np.linalg.inv(base) if is_inverse else base**exponent
        return base

    def group(self):
        """The tokens of what follows: one, or those within braces."""
        if not self.accept("{"):
            return [self.read()]
        start, depth = self.place, 1
        while depth:
            token = self.read()
            depth += (token == "{") - (token == "}")
        return self.tokens[start : self.place - 1]

    def closed(self, closing):
        value = self.expression()
        self.read(closing)
        return value

    def atom(self, token):
        match token:
            case "(":
                values = [self.expression()]
                while self.accept(","):
                    values.append(self.expression())
                self.read(")")
                return values[0] if len(values) == 1 else values
            case "{":
                return self.closed("}")
            case "[":
                return self.condition()
            case "|":
                return np.abs(self.closed("|"))
            case r"\lVert":
                return self.scope.functions["norm"](self.closed(r"\rVert"))
            case r"\lfloor":
                return np.floor(self.closed(r"\rfloor"))
            case r"\frac":
                return self.of(self.group()).whole() / self.of(self.group()).whole()
            case r"\sqrt":
                return np.sqrt(self.of(self.group()).whole())
            case r"\neg" | r"\lnot":
                return ~self.factor()
        if token[0].isdigit():
            return float(token)
        name = re.sub(r"\\(?:text|mathrm)\{(.*)\}", r"\1", token).replace(r"\_", "_")
        return self.name(GREEK.get(name, name))

    def name(self, name):
        if not self.accept("_"):
            return self.meaning(name)
        group = self.group()
        full = f"{name}_{''.join(group)}"
        if full in self.scope.env or (len(group) == 1 and group[0] not in "ijk"):
            return self.meaning(full)
        place = round(float(self.of(group).whole()))
        array = self.meaning(name)
        return array[place] if 0 <= place < len(array) else 0.0

    def meaning(self, name):
        if name in self.scope.env:
            return self.scope.env[name]
        if name in self.scope.definitions:
            return self.of(self.scope.definitions[name]).whole()
        return CONSTANTS[name]

    def condition(self):
        """[x > 0]: a chain of comparisons, or booleans, joined by `or`."""
        value = self.chain()
        while self.accept(r"\lor"):
            value = value | self.chain()
        self.read("]")
        return value * 1.0

    def chain(self):
        value, holds = self.expression(), None
        while self.next in RELATIONS:
            relation = RELATIONS[self.read()]
            left, value = value, self.expression()
            holds = relation(left, value) if holds is None else holds & relation(left, value)
        return np.asarray(value if holds is None else holds)

    def function(self, name):
        power = None
        order = 0 if name == r"\psi" else None  # of a polygamma function
        while self.next in ("^", "'"):
            if self.accept("'"):
                order = 1
                continue
            self.read("^")
            group = self.group()
            if name == r"\psi":
                order = round(self.of(group).whole())
            elif name == r"\Phi" and group == ["-", "1"]:
                name = "ndtri"
            else:
                power = self.of(group).whole()
        # of what stands in parentheses or a fraction, else of the product that follows
        if self.accept("("):
            x = self.closed(")")
        else:
            x = self.factor() if self.next == r"\frac" else self.product()
        if order is not None:
            return of_more(lambda x: mg.polygamma(order, x))(x)
        y = self.scope.functions[name](x)
        return self.power(y if power is None else y**power)

    def over_an_index(self, total):
        """A sum or product: over j, over the j of some conditions, from 1 to p, or (in words) over what the
        operand was broadcast over, which is added up in the end anyhow."""
        if not self.accept("_"):
            return self.product()
        index, *conditions = group = self.group()
        if index.startswith(r"\text"):
            return self.product()
        if conditions[:1] == ["="]:
            self.read("^")
            numbers = range(1, round(self.of(self.group()).whole()) + 1)
        else:
            tests = _parts(group) if conditions else []
            every = range(len(self.meaning("x")))
            numbers = [j for j in every if all(self.of(t, **{index: j}).chain() for t in tests)]
        bodies = [self.of(self.tokens[self.place :], **{index: j}) for j in numbers]
        values = [body.product() for body in bodies]
        end = self.of(self.tokens[self.place :], **{index: 0})  # where there are no numbers too
        end.product()
        self.place += end.place
        return total(values, axis=0)
