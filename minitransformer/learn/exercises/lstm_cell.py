"""One step of an LSTM, and why its memory keeps gradients.

Hochreiter and Schmidhuber 1997; the forget gate is by Gers et al. 2000. The gates are computed from the input
x and the last state h, all in one product with 4 H rows of weights, in the order i, f, g, o (PyTorch's):

    i, f, g, o = x W_ih^T + b_ih + h W_hh^T + b_hh        (four blocks of H numbers each)
    c' = sigmoid(f) c + sigmoid(i) tanh(g)                (the memory forgets a part, and takes up something)
    h' = sigmoid(o) tanh(c')                              (what it shows)

Then derive the gradient of the old memory c. A training step knows the gradients of h' and of c' (from the
next step, which reads both). c only has an effect through c', but c' has an effect in two ways. What is left
of a gradient after 100 steps if the forget gate is 1, and h' gets no gradient?
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_cell(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
    """Return the new h and c, both (N, H).

    x is (N, D), h and c are (N, H), weight_ih is (4 H, D), weight_hh (4 H, H), and the biases are (4 H,).
    """
    # BLANK: `new_h` and `new_c`; `np.split` cuts an array into equal parts along an axis
    gates = x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh  # (N, 4 H)
    i, f, g, o = np.split(gates, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    # END
    return new_h, new_c


def gradient_of_c(gradient_of_new_h, gradient_of_new_c, forget, output, new_c):
    """The gradient of the old c. `forget` and `output` are the gates after the sigmoid; all are (N, H)."""
    # BLANK: `gradient`, from what reaches new_c in both ways
    through_h = gradient_of_new_h * output * (1 - np.tanh(new_c) ** 2)
    gradient = (gradient_of_new_c + through_h) * forget
    # END
    return gradient
