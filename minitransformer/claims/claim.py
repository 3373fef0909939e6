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
    """One quantity must be lower than another by at least `by`, the smallest effect that counts.

    A quantity is "arm: measure". With `ratio`, it must be lower by this factor: the logarithms are compared.
    A negative `by` (or a factor below 1) says by how much it may be higher. A rule of one `case` holds there.
    """

    lower: str
    higher: str
    by: float
    ratio: bool = False
    case: str | None = None  # None: every case

    def __str__(self) -> str:
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
    is_timed: bool = False  # then nothing else runs beside it

    def __post_init__(self) -> None:
        for arm, measure in (each for rule in self.rules for each in rule.quantities):
            assert arm in self.arms and measure in self.measures, (arm, measure)
        assert not self.rates or self.tuned_by in self.measures
        assert {rule.case for rule in self.rules} <= {None, *self.cases}


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
