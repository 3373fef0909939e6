"""One step of Adam."""

from types import ModuleType

import numpy as np

from ..checking import check_cases, compare, result_of

LESSON = 12
REASONING = ""
HINTS = (
    "Five lines, in the order of the text. The corrected means are used for the step and not kept.",
    "At t = 1 the corrected means are g and g^2, so the first step has size lr, whatever the gradient's "
    "scale: check that by hand.",
    "m' = m / (1 - beta1**t) and v' = v / (1 - beta2**t) are new names; the last line is the formula.",
)
LR, B1, B2, EPS = 0.1, 0.8, 0.95, 0.01


def check(answer: ModuleType) -> None:
    p, g, m, v = (np.array(x) for x in ([1.0, -2.0], [0.5, 3.0], [0.2, -0.1], [0.4, 0.09]))
    result = result_of(answer.adam_step, p, g, m, v, 3, LR, B1, B2, EPS, count=3)
    m1 = B1 * m + (1 - B1) * g
    v1 = B2 * v + (1 - B2) * g**2
    swapped = (
        "the weights of the mean are exchanged: beta keeps the old mean, 1 - beta takes the new gradient"
    )
    kept = "{0} is the corrected mean: return {0} itself, the corrected one is for the step only"
    compare("m", result[1], m1, {
        swapped: (1 - B1) * m + B1 * g,
        kept.format("m"): m1 / (1 - B1**3),
        "m takes the whole gradient: the factor 1 - beta1 is missing": B1 * m + g,
    })  # fmt: skip
    compare("v", result[2], v1, {
        swapped: (1 - B2) * v + B2 * g**2,
        "v averages the gradient, not its square": B2 * v + (1 - B2) * g,
        "v averages the square of m, not of the gradient": B2 * v + (1 - B2) * m1**2,
        "v averages the square of the old m, not of the gradient": B2 * v + (1 - B2) * m**2,
        "v averages (g - m)^2, a variance: Adam takes g^2": B2 * v + (1 - B2) * (g - m1) ** 2,
        "v is one number for all elements: each has its own": B2 * v + (1 - B2) * (g**2).sum(),
        "v is one number for all elements: each has its own mean": B2 * v + (1 - B2) * (g**2).mean(),
        "v takes the whole square: the factor 1 - beta2 is missing": B2 * v + g**2,
        kept.format("v"): v1 / (1 - B2**3),
        "v uses beta1: it has its own, beta2": B1 * v + (1 - B1) * g**2,
    })  # fmt: skip
    step = lambda m, v, lr=LR: p - lr * m / (np.sqrt(v) + EPS)
    mc, vc = m1 / (1 - B1**3), v1 / (1 - B2**3)
    compare("the parameter", result[0], step(mc, vc), {
        "the means are not corrected at t = 3: divide by 1 - beta**t": step(m1, v1),
        "v is not corrected at t = 3": step(mc, v1),
        "m is not corrected at t = 3": step(m1, vc),
        "the correction uses beta, not beta**t": step(m1 / (1 - B1), v1 / (1 - B2)),
        "the step goes uphill: the sign is wrong": step(mc, vc, -LR),
        "the square root of v is missing": p - LR * mc / (vc + EPS),
        "eps is under the root: it is added to the root": p - LR * mc / np.sqrt(vc + EPS),
        "the correction of v stands outside the root: sqrt(v') with v' = v / (1 - beta2**t)": (
            p - LR * mc / (np.sqrt(v1) / (1 - B2**3) + EPS)
        ),
        "the step multiplies by sqrt(v'): it divides": p - LR * mc * (np.sqrt(vc) + EPS),
        "eps is missing": p - LR * mc / np.sqrt(vc),
        "the step uses the gradient, not its mean m": p - LR * g / (np.sqrt(vc) + EPS),
        "t counts from 1: the correction uses beta**(t - 1)": step(m1 / (1 - B1**2), v1 / (1 - B2**2)),
    })  # fmt: skip
    check_cases(
        answer.adam_step,
        [(p, g, m, v, 30, LR, B1, B2, EPS), (p, 0 * g, m, v, 3, LR, B1, B2, EPS)],
        _adam_step,
        {},
        lambda p, g, m, v, t, *_: f"(parameter, m, v) at t = {t} with gradient {g.tolist()}",
        "Each t and each gradient takes the same steps: with a gradient of 0, m still moves the parameter.",
        count=3,
    )


def _adam_step(
    p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, t: int, *_: float
) -> tuple[np.ndarray, ...]:
    m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g**2
    return p - LR * m / (1 - B1**t) / (np.sqrt(v / (1 - B2**t)) + EPS), m, v
