"""minitransformer.models."""
