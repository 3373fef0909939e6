"""minitransformer.data: what takes long."""
