"""Programs written for PyTorch, in its users' style: they run here with nothing but their imports changed."""
