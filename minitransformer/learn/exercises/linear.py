"""The gradients of a linear layer.

y = x W^T + b, with x of shape (N, in), W (out, in), b (out,), and y (N, out), as PyTorch's `nn.Linear` keeps
its weight. Given g, the gradient of y, of shape (N, out), return the gradients of all three.

The shapes nearly decide it: a gradient has the shape of what it belongs to. Which products of g, x and W have
these shapes? And b is added to all N rows: what does each row contribute?
"""


def linear(x, weight, bias):
    """x W^T + b."""
    return x @ weight.T + bias


def linear_gradients(x, weight, g):
    """The gradients of x, weight and bias, given g, the gradient of linear(x, weight, bias)."""
    # BLANK: compute `gradient_of_x`, `gradient_of_weight` and `gradient_of_bias`
    gradient_of_x = g @ weight  # (N, out) (out, in) -> (N, in)
    gradient_of_weight = g.T @ x  # (out, N) (N, in) -> (out, in)
    gradient_of_bias = g.sum(0)  # (out,)
    # END
    return gradient_of_x, gradient_of_weight, gradient_of_bias
