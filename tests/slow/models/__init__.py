"""minitransformer.models: what takes long."""
