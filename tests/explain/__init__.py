"""minitransformer.explain: the walk-through page."""
