"""A claim is one record: the question, who says so, what is measured, and the rule of its verdict.

All of it is written down before the first run; what a run adds are measurements, and the verdict is computed
from them (verdict.py).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UserError, did_you_mean


@dataclass(frozen=True)
class Rule:
    """One quantity must be lower than another by at least `by`, the smallest effect that counts.

    A quantity is "arm: measure". With `ratio`, it must be lower by this factor: the logarithms are compared.
    A negative `by` (or a factor below 1) says by how much it may be higher. With a `case`, it applies there.

    The rules of one `part` must all hold. Parts have verdicts of their own, as cases have.
    """

    lower: str
    higher: str
    by: float
    ratio: bool = False
    case: str | None = None  # None: every case
    part: str = ""

    def __str__(self) -> str:
        if self.ratio and self.by < 1:
            return f"{self.lower} at most {1 / self.by:.3g} times {self.higher}"
        if self.ratio:
            return f"{self.lower} lower than {self.higher} by a factor of {self.by:g}"
        if self.by < 0:
            return f"{self.lower} at most {-self.by:g} above {self.higher}"
        return f"{self.lower} at least {self.by:g} below {self.higher}"

    @property
    def quantities(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The arm and the measure of both."""
        low, high = (text.rpartition(": ")[::2] for text in (self.lower, self.higher))
        return low, high


@dataclass(frozen=True)
class Trial:
    """What one measurement is asked for: an arm in a case, with a learning rate and a seed."""

    arm: str
    case: str
    rate: float  # 0 if the claim has no learning rates
    seed: int
    share: float = 1.0  # fewer steps and repetitions for a lesson, or to see quickly that it runs

    def steps(self, count: int) -> int:
        """This share of a number of steps or repetitions, at least one."""
        return max(1, round(count * self.share))


Measure = Callable[[Trial], Mapping[str, float]]


@dataclass(frozen=True)
class Claim:
    """A question with its experiment."""

    name: str
    question: str
    says: Mapping[str, str]  # a text and its section -> what it says there
    setting: str  # the model, its data and its training, in words
    measures: Mapping[str, str]  # name -> what it is, with its unit
    arms: Sequence[str]
    rules: Sequence[Rule]
    measure: Measure = field(repr=False)
    cases: Sequence[str] = ("",)  # the verdict may depend on them
    rates: Sequence[float] = ()  # each arm gets the best of them in each case, by `tuned_by`
    tuned_by: str = "loss"  # a measure: the lower, the better
    unequal: str = ""  # why the arms differ in "parameters", if they do by more than 2%
    is_timed: bool = False  # then nothing else runs beside it

    def __post_init__(self) -> None:
        for arm, measure in (each for rule in self.rules for each in rule.quantities):
            assert arm in self.arms, arm
            assert measure in self.measures, measure
        assert not self.rates or self.tuned_by in self.measures
        assert {rule.case for rule in self.rules} <= {None, *self.cases}
        assert len({bool(rule.part) for rule in self.rules}) == 1, "a part without a name"

    @property
    def code(self) -> str:
        """A checksum of the experiment's file, and of those here that it uses, without their words.

        Measurements made by other code do not count.
        """
        sources = sorted(inspect.getsource(module) for module in modules_of(inspect.getmodule(self.measure)))
        return hashlib.sha256("".join(map(without_words, sources)).encode()).hexdigest()[:12]


# arguments of `claim` and `Rule` on which no measurement depends (each trial has its own learning rate)
WORDS = {"question", "says", "setting", "measures", "unequal", "rates", "part"}


def without_words(source: str) -> str:
    """The code of a file as a text, without comments, docstrings, and the words of a claim."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("claim", "Rule"):
            node.keywords = [each for each in node.keywords if each.arg not in WORDS]
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def modules_of(module: Any) -> set[Any]:
    """An experiment's module, and the modules of this package that it uses."""
    found = [module]
    for each in found:  # it grows meanwhile
        names = {
            value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
            for value in vars(each).values()
        }
        ours = {name for name in names if name.startswith(f"{__package__}.") and name != __name__}
        found += [used for name in sorted(ours) if (used := sys.modules[name]) not in found]
    return set(found)


CLAIMS: dict[str, Claim] = {}


def claim(**record: object) -> Callable[[Measure], Claim]:
    """A decorator that makes a claim of the function which measures one trial; its name is the function's."""

    def make(measure: Measure) -> Claim:
        name = measure.__name__.replace("_", "-")
        assert name not in CLAIMS, name
        CLAIMS[name] = found = Claim(name=name, measure=measure, **record)  # type: ignore[arg-type]
        return found

    return make


def find(name: str) -> Claim:
    """The claim with this name. Raises a UserError if there is none."""
    if name not in CLAIMS:
        raise UserError(
            f"unknown claim {name!r:.60}.{did_you_mean(name, CLAIMS)}\nList them with: minitransformer claims"
        )
    return CLAIMS[name]
