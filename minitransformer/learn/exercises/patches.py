"""From an image to the tokens of a Vision Transformer.

Dosovitskiy et al. 2021, section 3.1 and equation 1. An image of C channels, H rows and W columns is cut into
patches of P x P pixels. Each patch becomes one vector of C P P numbers, and each vector one token by a linear
layer. How many patches are there, and in which order? Here row by row, as one reads, and within a patch
channel by channel, and row by row.

`reshape` alone is not enough, since the pixels of a patch are not contiguous in memory. But H is (H / P) P:
split both axes in two, bring the axes into the right order, and join them again. Write down the six axes.

Then a learned class token comes first, and every token, the class token included, gets a learned position.
"""

import numpy as np


def patches(images, P):
    """Cut images (B, C, H, W) into patches (B, N, C P P); P divides H and W."""
    B, C, H, W = images.shape
    # BLANK: `flat`
    split = images.reshape(B, C, H // P, P, W // P, P)
    grid = split.transpose(0, 2, 4, 1, 3, 5)  # (B, H / P, W / P, C, P, P)
    flat = grid.reshape(B, (H // P) * (W // P), C * P * P)
    # END
    return flat


def tokens(images, P, weight, bias, class_token, positions):
    """The tokens (B, 1 + N, D); weight (D, C P P), bias and class_token (D,), positions (1 + N, D)."""
    # BLANK: `x`, from patches(images, P)
    projected = patches(images, P) @ weight.T + bias
    first = np.broadcast_to(class_token, (len(images), 1, len(class_token)))
    x = np.concatenate([first, projected], axis=1) + positions
    # END
    return x
