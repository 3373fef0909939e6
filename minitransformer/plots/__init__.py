"""Functions that draw pictures for papers and slides.

    figure = plots.attention_heads(maps, tokens, path="heads.svg")

Each function returns a matplotlib figure. With a `path`, it also writes the figure as SVG, PNG or PDF, by the
path's suffix. Figures are as wide as a column of a paper or, if there is more to show, as a page. Their
colours are safe for the colour-blind. Spaces and undrawable characters are made visible in tokens; if there
is not enough space for all labels, some are left out.
"""

from .attention import alignment, attention_arcs, attention_heads
from .curves import training_curves
from .heads import head_scores
from .probabilities import next_token_probabilities
from .simple import bars, curves, heat_map
from .vectors import embeddings, positional_encoding

__all__ = [
    "alignment", "attention_arcs", "attention_heads", "bars", "curves", "embeddings", "head_scores",
    "heat_map", "next_token_probabilities", "positional_encoding", "training_curves",
]  # fmt: skip
