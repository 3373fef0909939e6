"""Add & norm: a post-norm and a pre-norm sublayer, and their gradients.

"Attention Is All You Need", section 3.1: the output of a sublayer f, attention or feed-forward, is

    post-norm:   norm(x + f(x))

Most models of today put the norm elsewhere (Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture", table 1):

    pre-norm:    x + f(norm(x))

For the backward pass, `f_backward` takes the gradient of f's output and returns the gradient of its input;
`norm_backward` does the same for the norm. Given g, the gradient of the sublayer's output, return the
gradient of x. Draw each formula as a graph: where do two paths lead from x to the output? Each path gives a
gradient, and they add up. What is on the shorter path in each graph?
"""


def post_norm(x, f, norm):
    # BLANK: compute `out`
    out = norm(x + f(x))
    # END
    return out


def pre_norm(x, f, norm):
    # BLANK: compute `out`
    out = x + f(norm(x))
    # END
    return out


def post_norm_gradient(g, f_backward, norm_backward):
    """The gradient of x, given g, the gradient of post_norm(x, f, norm)."""
    # BLANK: compute `gradient`
    of_sum = norm_backward(g)
    gradient = of_sum + f_backward(of_sum)
    # END
    return gradient


def pre_norm_gradient(g, f_backward, norm_backward):
    """The gradient of x, given g, the gradient of pre_norm(x, f, norm)."""
    # BLANK: compute `gradient`
    through_f = norm_backward(f_backward(g))
    gradient = g + through_f
    # END
    return gradient
