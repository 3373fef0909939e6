"""A claim is one record: the question, who says so, what is measured, and the rule of its verdict.

All of it is written down before the first run; what a run adds are measurements, and the verdict is computed
from them (verdict.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import UserError, did_you_mean


@dataclass(frozen=True)
class Rule:
    """One arm's measure must be lower than another's, by at least `by`, the smallest effect that counts.

    With `ratio`, it must be lower by this factor: the logarithms of the measures are compared.
    """

    measure: str
    lower: str  # an arm
    higher: str  # an arm
    by: float
    ratio: bool = False

    def __str__(self) -> str:
        how = f"by a factor of {self.by:g} at least" if self.ratio else f"by at least {self.by:g}"
        return f"{self.measure}: {self.lower} below {self.higher}, {how}"


@dataclass(frozen=True)
class Trial:
    """What one measurement is asked for: an arm in a case, with a learning rate and a seed."""

    arm: str
    case: str
    rate: float  # 0 if the claim has no learning rates
    seed: int
    is_quick: bool = False  # a few seconds: to see that it runs

    def of(self, full: int, quick: int) -> int:
        """A size: of the experiment, or of a quick run."""
        return quick if self.is_quick else full


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
    rules: Sequence[Rule]  # all must hold in a case
    measure: Measure = field(repr=False)
    cases: Sequence[str] = ("",)  # the verdict may depend on them
    rates: Sequence[float] = ()  # each arm is given the best of them in each case, by `tuned_by`
    tuned_by: str = "loss"  # a measure: the lower, the better

    def __post_init__(self) -> None:
        names = {self.tuned_by} if self.rates else set()
        assert names | {rule.measure for rule in self.rules} <= set(self.measures)
        assert {arm for rule in self.rules for arm in (rule.lower, rule.higher)} <= set(self.arms)


CLAIMS: dict[str, Claim] = {}


def claim(**record: object) -> Callable[[Measure], Claim]:
    """A decorator that makes a claim of the function which measures one trial; its name is the function's."""

    def make(measure: Measure) -> Claim:
        name = measure.__name__.replace("_", "-")
        CLAIMS[name] = found = Claim(name=name, measure=measure, **record)  # type: ignore[arg-type]
        return found

    return make


def find(name: str) -> Claim:
    """The claim of this name; a UserError if there is none."""
    if name not in CLAIMS:
        raise UserError(
            f"unknown claim {name!r:.60}.{did_you_mean(name, CLAIMS)}\n"
            f"List them with: minitransformer claims"
        )
    return CLAIMS[name]
