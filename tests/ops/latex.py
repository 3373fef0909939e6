"""The LaTeX that ops give for their gradients, evaluated on numbers.

    evaluate(r"g\\,\\sigma(x),\\; g = 2", {"x": x}) -> array

Arithmetic, comparisons in brackets ([x > 0] is 1 or 0), functions, sums and products over indices. Factors
side by side are multiplied element by element, or with `matrices` as matrices, where vectors are columns.
Behind the formula, after commas, names that it uses may be defined.
"""

import math
import re
from operator import eq, ge, gt, le, lt, ne

import numpy as np

from minigrad.ops import special_functions as special

SPACE = r"\\[,;:! ]|\s|\\(?:left|right|Big|textstyle|quad|qquad)\b"
TOKEN = re.compile(
    rf"({SPACE})|(\\(?:text|mathrm|operatorname)\{{[^}}]*\}}|\\[a-zA-Z]+|\d+(?:\.\d+)?|[a-zA-Z]+|.)"
)
RELATIONS = {"<": lt, ">": gt, "=": eq, r"\le": le, r"\ge": ge, r"\ne": ne}
GREEK = {r"\alpha": "alpha", r"\beta": "beta", r"\lambda": "lambd", r"\epsilon": "eps"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
ENDS = {"", ")", "]", "}", "|", "+", "-", ",", "&", r"\lor", r"\rVert", r"\rfloor", *RELATIONS}


def inverses():
    from minigrad.more import error_functions

    return error_functions


def gamma():
    from minigrad.more import gamma_functions

    return gamma_functions


phi = lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
FUNCTIONS = {
    r"\ln": np.log, r"\log": np.log, r"\sin": np.sin, r"\cos": np.cos, r"\tan": np.tan, r"\sinh": np.sinh,
    r"\cosh": np.cosh, r"\tanh": np.tanh, r"\sigma": special.sigmoid, r"\varphi": phi,
    r"\det": lambda a: np.linalg.det(a)[..., None, None],
    r"\Phi": lambda x: special.erfc(-x / math.sqrt(2)) / 2, "sign": np.sign, "trunc": np.trunc,
    "erfinv": lambda p: inverses().erfinv(p), "sinc": np.sinc, "sym": lambda a: (a + a.swapaxes(-1, -2)) / 2,
    "rowsum": lambda a: a.sum(-1, keepdims=True), "tril": np.tril, "triu": np.triu,
    "lower": lambda a: np.tril(a) - np.tril(np.triu(a)) / 2,
    "diag": lambda v: v[..., None] * np.eye(v.shape[-1]),
}  # fmt: skip


class Identity:
    """The identity matrix, of the size of what it is added to."""


def evaluate(latex, env, functions=None, matrices=False, axes=(-1,), others=()):
    """The value of a formula; `axes` are those of a mean, a norm or a softmax; `others` may define names."""
    formulas = [latex, *others]
    names = {name for name in env if len(name) > 1}.union(*[re.findall(r"(\w+) =", f) for f in formulas])
    read = [_Parser(f, names).formula() for f in formulas]
    value = read[0][0]
    definitions = {name: of for _, found in read for name, of in found.items()}
    along = lambda f: lambda x: f(x, axis=axes, keepdims=True)
    known = {"softmax": lambda x: _softmax(x, axes), "var": along(np.var), "mean": along(np.mean)}
    known["norm"] = lambda x: np.sqrt((x * x).sum(axis=axes, keepdims=True))
    scope = _Scope(definitions | env, FUNCTIONS | known | (functions or {}), matrices)
    return value(scope)


def _softmax(x, axes):
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


class _Scope:
    def __init__(self, env, functions, matrices):
        self.env = env
        self.functions = functions
        self.matrices = matrices

    def __getitem__(self, name):
        value = self.env[name]
        return value(self) if callable(value) else value

    def binding(self, **indices):
        return _Scope(self.env | indices, self.functions, self.matrices)

    def times(self, a, b):
        numbers = any(not np.ndim(x) or np.shape(x)[-2:] == (1, 1) for x in (a, b))
        return a * b if numbers or not self.matrices else a @ b


def _combined(operate, a, b):
    """a + b or a - b, where one may be the identity."""
    if isinstance(a, Identity):
        a = np.eye(b.shape[-1])
    if isinstance(b, Identity):
        b = np.eye(a.shape[-1])
    return operate(a, b)


class _Parser:
    """Each method reads a part of a formula and gives a function of a scope."""

    def __init__(self, latex, names):
        self.tokens = []
        self.place = 0
        for space, token in TOKEN.findall(latex):
            if not space:
                self.tokens += self._letters(token, names)

    @staticmethod
    def _letters(token, names):
        """A word as the names and letters that it is made of."""
        if not token.isalpha():
            return [token]
        known = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
        return re.findall(rf"{known}|.", token)

    @property
    def next(self):
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def read(self, expected=None):
        token = self.next
        assert token == (expected or token) != "", f"expected {expected}, found {token!r} at {self.place}"
        self.place += 1
        return token

    def accept(self, token):
        if self.next == token:
            return self.read()
        return None

    def formula(self):
        value = self.expression()
        definitions = {}
        while self.accept(","):
            name = self.read()
            self.read("=")
            definitions[GREEK.get(name, name)] = self.expression()
        assert not self.next, f"left over: {self.tokens[self.place :]}"
        return value, definitions

    def expression(self):
        negative = bool(self.accept("-"))
        value = self.product()
        if negative:
            value = lambda s, v=value: -v(s)
        while self.next in ("+", "-"):
            plus = self.read() == "+"
            other = self.product()
            operate = np.add if plus else np.subtract
            value = lambda s, a=value, b=other, f=operate: _combined(f, a(s), b(s))
        return value

    def product(self):
        value = self.factor()
        while self.next not in ENDS:
            if self.accept(r"\odot"):
                other = self.factor()
                value = lambda s, a=value, b=other: a(s) * b(s)
            elif self.accept("/"):
                other = self.factor()
                value = lambda s, a=value, b=other: a(s) / b(s)
            elif self.accept(r"\times"):
                other = self.factor()
                value = lambda s, a=value, b=other: s.functions["cross"](a(s), b(s))
            else:
                other = self.factor()
                value = lambda s, a=value, b=other: s.times(a(s), b(s))
        return value

    def factor(self):
        token = self.read()
        if token in (r"\sum", r"\prod"):
            return self.over_an_index(np.sum if token == r"\sum" else np.prod)
        name = re.sub(r"\\operatorname\{(.*)\}", r"\1", token)
        if name in FUNCTIONS or token.startswith(r"\operatorname") or token == r"\psi":
            return self.function(name)
        return self.power(self.atom(token))

    def power(self, base):
        while self.next == "^":
            self.read()
            group = self.group_tokens()
            if group in ([r"\top"], ["-", r"\top"]):
                inverse = len(group) == 2
                base = lambda s, b=base, i=inverse: (np.linalg.inv(b(s)) if i else b(s)).swapaxes(-1, -2)
                continue
            exponent = self.of(group)
            base = lambda s, b=base, e=exponent: _raised(s, b(s), e(s))
        return base

    def group_tokens(self):
        """The tokens of what follows: one, or those within braces."""
        if not self.accept("{"):
            return [self.read()]
        depth = 1
        found = []
        while depth:
            token = self.read()
            depth += (token == "{") - (token == "}")
            found.append(token)
        return found[:-1]

    def of(self, tokens):
        """An expression of some tokens."""
        inner = _Parser("", ())
        inner.tokens = tokens
        value = inner.expression()
        assert not inner.next, tokens
        return value

    def closed(self, opening):
        value = self.expression()
        self.read(CLOSING[opening])
        return value

    def atom(self, token):
        if token == "(":
            return self.tuple()
        if token == "{":
            return self.closed("{")
        if token == "[":
            return self.condition()
        if token == "|":
            value = self.expression()
            self.read("|")
            return lambda s: np.abs(value(s))
        if token == r"\lVert":
            value = self.expression()
            self.read(r"\rVert")
            return lambda s: s.functions["norm"](value(s))
        if token == r"\lfloor":
            value = self.expression()
            self.read(r"\rfloor")
            return lambda s: np.floor(value(s))
        if token == r"\frac":
            over = self.of(self.group_tokens())
            under = self.of(self.group_tokens())
            return lambda s: over(s) / under(s)
        if token == r"\sqrt":
            value = self.of(self.group_tokens())
            return lambda s: np.sqrt(value(s))
        if token == r"\pi":
            return lambda s: math.pi
        if token == r"\infty":
            return lambda s: math.inf
        if token in (r"\neg", r"\lnot"):
            value = self.factor()
            return lambda s: ~value(s)
        if token[0].isdigit():
            return lambda s, n=float(token): n
        name = re.sub(r"\\(?:text|mathrm)\{(.*)\}", r"\1", token).replace(r"\_", "_")
        return self.name(GREEK.get(name, name))

    def tuple(self):
        """What stands in parentheses; several values become a list."""
        values = [self.expression()]
        while self.accept(","):
            values.append(self.expression())
        self.read(")")
        return values[0] if len(values) == 1 else lambda s: [v(s) for v in values]

    def name(self, name):
        if not self.accept("_"):
            assert re.match(r"\w", name), f"not understood: {name}"
            return lambda s: math.e if name == "e" and "e" not in s.env else s[name]
        group = self.group_tokens()
        full = f"{name}_{''.join(group)}"
        place = None if len(group) == 1 and group[0] not in "ijk" else self.of(group)

        def find(s):
            if full in s.env or place is None:
                return s[full]
            i = round(float(place(s)))
            array = s[name]
            return array[i] if 0 <= i < len(array) else 0.0

        return find

    def condition(self):
        """[x > 0]: a chain of comparisons, or booleans, joined by `or`."""
        parts = [self.chain()]
        while self.accept(r"\lor"):
            parts.append(self.chain())
        self.read("]")
        return lambda s: sum(part(s) for part in parts).astype(bool) * 1.0

    def chain(self):
        values = [self.expression()]
        relations = []
        while self.next in RELATIONS:
            relations.append(RELATIONS[self.read()])
            values.append(self.expression())

        def holds(s):
            found = [v(s) for v in values]
            if not relations:
                return np.asarray(found[0])
            each = [r(a, b) for r, a, b in zip(relations, found, found[1:], strict=False)]
            return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*each)))

        return holds

    def function(self, name):
        power = None
        order = None
        if name == r"\psi":
            order = lambda s: 0.0
        while self.next in ("^", "'"):
            if self.accept("'"):
                order = lambda s: 1.0
                continue
            self.read()
            group = self.group_tokens()
            if name == r"\psi":
                order = self.of(group)
            elif name == r"\Phi" and group == ["-", "1"]:
                name = "ndtri"
            else:
                power = self.of(group)
        argument = self.argument()

        def value(s):
            x = argument(s)
            if order is not None:
                return gamma().polygamma(np.asarray(x), round(order(s)))
            y = inverses().ndtri(x) if name == "ndtri" else s.functions[name](x)
            return y if power is None else y ** power(s)

        return self.power(value)

    def argument(self):
        """What a function is of: what stands in parentheses or a fraction, else the product that follows."""
        if self.accept("("):
            return self.closed("(")
        return self.factor() if self.next == r"\frac" else self.product()

    def over_an_index(self, total):
        """A sum or product: over j, over the j of some conditions, from 1 to p, or (in words) over what the
        operand was broadcast over, which is added up in the end anyhow."""
        if not self.accept("_"):
            return self.product()
        group = self.group_tokens()
        if group[0].startswith(r"\text"):
            return self.product()
        if group[1:2] == ["="]:
            self.read("^")
            last = self.of(self.group_tokens())
            body = self.product()
            name = group[0]
            return lambda s: sum(body(s.binding(**{name: i})) for i in range(1, round(last(s)) + 1))
        conditions = _Parser("", ())
        conditions.tokens = group
        each = []
        if len(group) > 1:
            each.append(conditions.chain())
            while conditions.accept(","):
                each.append(conditions.chain())
        body = self.product()
        name = group[0]

        def value(s):
            places = [s.binding(**{name: j}) for j in range(len(s["x"]))]
            return total([body(p) for p in places if all(c(p) for c in each)])

        return value


def _raised(scope, base, exponent):
    if scope.matrices and np.ndim(base) > 1 and exponent == -1:
        return np.linalg.inv(base)
    return base**exponent
