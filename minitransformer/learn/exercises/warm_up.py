"""The learning rate of the paper: warm-up, then a slow decay.

"Attention Is All You Need", section 5.3, equation 3:

    lrate = d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5)

Steps are counted from 1. One of the two terms rises with the step, the other falls; the rate follows the
smaller one, and is largest where the two are equal.

The formula has no learning rate to set: its peak follows from d_model and warmup_steps. So derive the
inverse: how many warm-up steps give a certain peak? Find the step of the peak, insert it into the formula,
and solve.
"""


def learning_rate(step, d_model, warmup_steps):
    """The rate at a step, counted from 1."""
    # BLANK: `rate`
    rising = step * warmup_steps**-1.5
    falling = step**-0.5
    rate = d_model**-0.5 * min(rising, falling)
    # END
    return rate


def warm_up_for(peak, d_model):
    """The number of warm-up steps, not rounded, for which the largest rate is `peak`."""
    # BLANK: `warmup_steps`
    warmup_steps = 1 / (d_model * peak**2)
    # END
    return warmup_steps
