"""Label smoothing: the target, its loss, and the gradient.

"Attention Is All You Need", section 5.4, trains with "label smoothing of value 0.1" (Szegedy et al. 2016,
section 7). The target of a token is no longer just the right class: a fraction e of its probability is spread
evenly over *all* V classes, including the right one. Each row is still a distribution.

The loss of a row is the cross-entropy of the model's p = softmax(x) with the target q,

    loss = -sum_k q_k log p_k

and the loss of N rows is the mean of their losses. Derive its gradient with respect to x_j, for any q: first
write log p_k = x_k - log(sum_i exp(x_i)), and use what the q_k of a row sum to. At which p is the gradient 0?
"""

import numpy as np

from minigrad.ops import differentiable


def smoothed_target(targets, V, e):
    """The target q of shape (N, V), for an array of N classes, each from 0 to V - 1."""
    # BLANK: `q`
    one_hot = np.eye(V)[targets]
    q = (1 - e) * one_hot + e / V
    # END
    return q


@differentiable
def smoothed_loss(logits, /, targets, e):
    """The mean over N rows of the cross-entropy with the smoothed target; logits (N, V)."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    q = smoothed_target(targets, logits.shape[-1], e)
    # BLANK: `loss`, a number, and `gradient_of_logits`, a function of g, a number
    loss = -(q * log_p).sum(-1).mean()

    def gradient_of_logits(g):
        return g * (np.exp(log_p) - q) / len(logits)

    # END
    return loss, (gradient_of_logits,)
