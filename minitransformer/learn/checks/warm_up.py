"""The learning rate of the paper."""

from collections.abc import Callable
from functools import partial
from types import ModuleType

from ..checking import check_cases

LESSON = 12
REASONING = "derivation"
HINTS = (
    "At step = 1 and warmup_steps = 100, how large is each of the two terms? At which step are they equal?",
    "step^-0.5 = step warmup_steps^-1.5 at step = warmup_steps: there is the peak, with the rate "
    "d_model^-0.5 warmup_steps^-0.5. Solve for warmup_steps.",
    "d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5); and 1 / (d_model * peak**2).",
)
CASES = (  # step, d_model, warmup_steps; early, at the end of the warm-up, and late
    (1, 512, 4000),
    (3, 64, 10),
    (10, 64, 10),
    (11, 64, 10),
    (200, 64, 10),
    (100_000, 512, 4000),
    (1, 16, 1),
)
WRONG_RATES: dict[str, Callable[[int, int, int, float, float], float]] = {
    "takes the larger of the two terms": lambda step, d, w, rise, fall: d**-0.5 * max(rise, fall),
    "lacks the factor d_model^-0.5": lambda step, d, w, rise, fall: min(rise, fall),
    "multiplies by the root of d_model: its exponent is -0.5": (
        lambda step, d, w, rise, fall: d**0.5 * min(rise, fall)
    ),
    "divides by d_model, not by its root": lambda step, d, w, rise, fall: min(rise, fall) / d,
    "has the factor d_model^-0.5 in the falling term only": (
        lambda step, d, w, rise, fall: min(d**-0.5 * fall, rise)
    ),
    "has the factor d_model^-0.5 in the rising term only": (
        lambda step, d, w, rise, fall: min(fall, d**-0.5 * rise)
    ),
    "only rises: the term step^-0.5 is missing": lambda step, d, w, rise, fall: d**-0.5 * rise,
    "only falls: there is no warm-up": lambda step, d, w, rise, fall: d**-0.5 * fall,
    "stays at its peak after the warm-up: from there it falls as step^-0.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(rise, w**-0.5)
    ),
    "rises as step / warmup_steps, up to d_model^-0.5: at the end of the warm-up the two terms are equal": (
        lambda step, d, w, rise, fall: d**-0.5 * min(step / w, fall)
    ),
    "rises as step / warmup_steps, up to d_model^-0.5, and jumps down after the warm-up": (
        lambda step, d, w, rise, fall: d**-0.5 * (step / w if step <= w else fall)
    ),
    "adds the two terms: it follows the smaller one": lambda step, d, w, rise, fall: d**-0.5 * (rise + fall),
    "multiplies the two terms: it follows the smaller one": (
        lambda step, d, w, rise, fall: d**-0.5 * rise * fall
    ),
    "has warmup_steps^1.5: the exponent is -1.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(step * w**1.5, fall)
    ),
    "has warmup_steps^-0.5: the exponent is -1.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(step * w**-0.5, fall)
    ),
    "lacks the step in the rising term, which stays at warmup_steps^-1.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(w**-1.5, fall)
    ),
    "has step^0.5 where the rate must fall: the exponent is -0.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(rise, step**0.5)
    ),
    "falls as 1 / step, not as step^-0.5": lambda step, d, w, rise, fall: d**-0.5 * min(rise, 1 / step),
    "counts steps from 0: here the first step is 1": (
        lambda step, d, w, rise, fall: d**-0.5 * min((step + 1) * w**-1.5, (step + 1) ** -0.5)
    ),
    "counts steps from 0, so the rate of the first step is 0: here the first step is 1": (
        lambda step, d, w, rise, fall: d**-0.5 * min((step - 1) * w**-1.5, fall)
    ),
    "is too large by the root of warmup_steps: its peak is d_model^-0.5 warmup_steps^-0.5": (
        lambda step, d, w, rise, fall: d**-0.5 * min(step / w, (w / step) ** 0.5)
    ),
    "is the mean of the two terms: it follows the smaller one": (
        lambda step, d, w, rise, fall: d**-0.5 * (rise + fall) / 2
    ),
    "falls from the end of the warm-up as (step - warmup_steps)^-0.5: the step counts from the beginning": (
        lambda step, d, w, rise, fall: d**-0.5 * (rise if step <= w else (step - w) ** -0.5)
    ),
    "is always 0: an integer division, perhaps": lambda step, d, w, rise, fall: 0.0,
}
PEAKS = ((0.01, 100), (0.5, 4), (512**-0.5 * 4000**-0.5, 512), (2.0, 8))  # peak, d_model
WRONG_INVERSES: dict[str, Callable[[float, int], float]] = {
    "does not square the peak, which is (d_model warmup_steps)^-0.5": lambda peak, d: 1 / (d * peak),
    "has the root of d_model: square the whole equation": lambda peak, d: 1 / (d**0.5 * peak**2),
    "has the square of d_model: the rate has its root": lambda peak, d: 1 / (d * peak) ** 2,
    "is upside down: a higher peak needs a shorter warm-up": lambda peak, d: d * peak**2,
    "takes a root, where the equation must be squared": lambda peak, d: (d * peak**2) ** -0.5,
    "ignores d_model": lambda peak, d: 1 / peak**2,
    "multiplies by d_model: a larger d_model lowers the rate, so the same peak takes fewer steps": (
        lambda peak, d: d / peak**2
    ),
    "rounds the number of steps": lambda peak, d: float(round(1 / (d * peak**2))),
    "rounds the number of steps down": lambda peak, d: float(int(1 / (d * peak**2))),
    "rounds the number of steps up": lambda peak, d: -float(-1 / (d * peak**2) // 1),
    "puts step 1 into the formula: the peak is at another step": (
        lambda peak, d: (peak * d**0.5) ** (-2 / 3)
    ),
}


def _rate(step: int, d: int, w: int) -> float:
    return float(d**-0.5 * min(step**-0.5, step * w**-1.5))


def _of_terms(formula: Callable[..., float], step: int, d: int, w: int) -> float:
    """Compute a formula of WRONG_RATES, which gets the rising and the falling term."""
    return formula(step, d, w, step * w**-1.5, step**-0.5)


def check(answer: ModuleType) -> None:
    check_cases(
        answer.learning_rate,
        CASES,
        _rate,
        {f"the rate {words}": partial(_of_terms, wrong) for words, wrong in WRONG_RATES.items()},
        lambda step, d, w: f"learning_rate({step}, {d}, {w})",
        "At step = warmup_steps both terms are warmup_steps^-0.5; before it the rate rises in proportion to "
        "the step.",
        by_luck=True,
    )
    check_cases(
        answer.warm_up_for,
        PEAKS,
        lambda peak, d: 1 / (d * peak**2),
        {f"the result {words}": wrong for words, wrong in WRONG_INVERSES.items()},
        lambda peak, d: f"warm_up_for({peak:.6g}, {d})",
        "Put it to the test: with your number of steps as w, learning_rate(w, d_model, w) must be the peak.",
        by_luck=True,
    )
