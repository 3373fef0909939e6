"""minigrad.kernels: kernels beside the definitions."""
