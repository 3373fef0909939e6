"""minigrad.torch_names: PyTorch's names, and NumPy's functions."""
