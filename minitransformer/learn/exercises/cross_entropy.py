"""Cross-entropy of logits: a value that cannot overflow, and its gradient.

For one row of logits x and the right class t, p = softmax(x) and

    loss = -log p_t = log(sum_j exp(x_j)) - x_t

exp(1000) is infinite. But log(sum_j exp(x_j)) = m + log(sum_j exp(x_j - m)) for any m; with m the largest
logit no exponent is above 0. The loss of N rows is the *mean* of their losses.

Derive the gradient of a row's loss with respect to x_j: there is one case for j = t and one for the others,
and both are short in terms of p. Mind the mean.
"""

import numpy as np

from minigrad.ops import differentiable


@differentiable
def cross_entropy(logits, /, targets):
    """The mean over N rows of -log softmax(logits)[target]; logits (N, V), targets N integers."""
    rows = np.arange(len(logits))
    # BLANK: `loss`, a number, and `gradient_of_logits`, a function of g, a number
    shifted = logits - logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(-1, keepdims=True))
    log_p = shifted - log_sum
    loss = -log_p[rows, targets].mean()

    def gradient_of_logits(g):
        difference = np.exp(log_p)
        difference[rows, targets] -= 1
        return g * difference / len(logits)

    # END
    return loss, (gradient_of_logits,)
