"""The experiments, one per file, grouped by subject. Importing this package registers them in this order."""

# ruff: noqa: I001

# positions
from . import (
    inherent_order,
    no_positions,
    integer_positions,
    add_or_concatenate,
    relative_positions,
    extrapolation,
)

# attention and its heads
from . import sqrt_dk, three_matrices, many_heads, heads_specialise, head_pruning

# residual connections, norms, feed-forward networks and embeddings
from . import gradient_flow, residuals, norms, warm_up, feed_forward_width, weight_tying, probes

# training
from . import cheating, exposure_bias, smoothing

# what is learned from which data
from . import contextual_meaning, attention_of_it, two_directions, pre_training, loss_and_size

# recurrent models and attention, and their costs
from . import fixed_context, far_gradients, equal_quality, shorter_than_wide, attention_memory
