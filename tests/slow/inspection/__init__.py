"""minitransformer.inspection: what takes long."""
