"""The class Claim: a question, who makes the claim, what is measured, and the rules for a verdict.

All of this is fixed before the first run. A run adds measurements, from which the verdict is computed
(verdict.py).
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
    """A rule: one quantity must be lower than another by at least `by`, the smallest effect that counts.

    A quantity is "arm: measure". If `ratio` is True, it must be lower by the factor `by`, and logarithms are
    compared. If `by` is negative (or a factor below 1), the quantity may be higher by that much. A rule with
    a `case` applies only in that case.

    The rules of one `part` must all hold. Each part has a verdict, as each case has.
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
        """The (arm, measure) of the lower and of the higher quantity."""
        low, high = (text.rpartition(": ")[::2] for text in (self.lower, self.higher))
        return low, high


@dataclass(frozen=True)
class Trial:
    """The specification of one measurement: an arm in a case, with a learning rate and a seed."""

    arm: str
    case: str
    rate: float  # 0 if the claim has no learning rates
    seed: int
    share: float = 1.0  # the fraction of the steps and repetitions to do, for lessons and --quick

    def steps(self, count: int) -> int:
        """The `share` of a number of steps or repetitions, at least 1."""
        return max(1, round(count * self.share))


Measure = Callable[[Trial], Mapping[str, float]]


@dataclass(frozen=True)
class Claim:
    """A question about a claim of the literature, with the experiment that answers it."""

    name: str
    question: str
    says: Mapping[str, str]  # a text and its section -> what it says there
    setting: str  # a description of the model, its data and its training
    measures: Mapping[str, str]  # name -> description, with its unit
    arms: Sequence[str]
    rules: Sequence[Rule]
    measure: Measure = field(repr=False)
    cases: Sequence[str] = ("",)  # settings on which the verdict may depend
    rates: Sequence[float] = ()  # the learning rates of which each arm gets the best in each case
    tuned_by: str = "loss"  # the measure by which the best learning rate is chosen, the lowest
    unequal: str = ""  # the reason if the numbers of parameters of arms differ by more than 2%
    is_timed: bool = False  # whether trials must run one at a time

    def __post_init__(self) -> None:
        for arm, measure in (each for rule in self.rules for each in rule.quantities):
            assert arm in self.arms, arm
            assert measure in self.measures, measure
        assert not self.rates or self.tuned_by in self.measures
        assert {rule.case for rule in self.rules} <= {None, *self.cases}
        assert len({bool(rule.part) for rule in self.rules}) == 1, "a part without a name"

    @property
    def code(self) -> str:
        """A checksum of the experiment's code and of the code in this package that it uses.

        Measurements that were made by other code do not count.
        """
        sources = sorted(inspect.getsource(module) for module in modules_of(inspect.getmodule(self.measure)))
        return hashlib.sha256("".join(map(without_words, sources)).encode()).hexdigest()[:12]


# arguments of `claim` and `Rule` on which no measurement depends (a learning rate is part of each trial)
WORDS = {"question", "says", "setting", "measures", "unequal", "rates", "part"}


def without_words(source: str) -> str:
    """Return a dump of the code of a file, without comments, docstrings, and the arguments in WORDS."""
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
    """Return an experiment's module, and the modules of this package that it uses, except this one."""
    found = [module]
    for each in found:  # the list grows in the loop
        names = {
            value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
            for value in vars(each).values()
        }
        ours = {name for name in names if name.startswith(f"{__package__}.") and name != __name__}
        found += [used for name in sorted(ours) if (used := sys.modules[name]) not in found]
    return set(found)


CLAIMS: dict[str, Claim] = {}


def claim(**record: object) -> Callable[[Measure], Claim]:
    """Decorator that registers a Claim, with these fields, for the function that measures one trial.

    The claim has the function's name, with dashes for underscores.
    """

    def make(measure: Measure) -> Claim:
        name = measure.__name__.replace("_", "-")
        assert name not in CLAIMS, name
        CLAIMS[name] = found = Claim(name=name, measure=measure, **record)  # type: ignore[arg-type]
        return found

    return make


def find(name: str) -> Claim:
    """Return the claim with this name. Raise a UserError if there is none."""
    if name not in CLAIMS:
        raise UserError(
            f"unknown claim {name!r:.60}.{did_you_mean(name, CLAIMS)}\nList them with: minitransformer claims"
        )
    return CLAIMS[name]
