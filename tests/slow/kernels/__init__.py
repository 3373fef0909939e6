"""minigrad.kernels: what takes long."""
