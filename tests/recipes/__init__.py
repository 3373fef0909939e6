"""minitransformer.recipes."""
