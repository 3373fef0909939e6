"""minitransformer.explain: what takes long."""
