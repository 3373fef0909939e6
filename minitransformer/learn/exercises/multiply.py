"""The gradients of a product.

`differentiable` makes an operation from a rule. The rule gets arrays and returns two things: the value, and
for each input a function that turns the gradient of the value, `g`, into the gradient of that input.

Write the two functions for z = x y. Each has one line: how fast does z change with x? By the chain rule, that
rate times g is the gradient of x.
"""

from minigrad.ops import differentiable


@differentiable
def multiply(x, y, /):
    """The product of two arrays of the same shape, element by element."""
    z = x * y

    # BLANK: two functions of g, `gradient_of_x` and `gradient_of_y`
    def gradient_of_x(g):
        return g * y

    def gradient_of_y(g):
        return g * x

    # END
    return z, (gradient_of_x, gradient_of_y)
