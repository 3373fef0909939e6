"""minitransformer.generation."""
