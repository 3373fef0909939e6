"""Pictures for papers and slides, one call each.

    figure = plots.attention_heads(maps, tokens, path="heads.svg")

Each function returns a matplotlib figure, and writes it where `path` says: SVG, PNG or PDF, by its suffix.
Figures are as wide as a column of a paper, or as a page if there is more to show; their colours are safe for
the colour-blind. Spaces and undrawable characters are made visible in tokens; if there is no room for all
labels, some are left out.
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
