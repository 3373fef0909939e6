"""minitransformer.plots."""
