"""minigrad.gradcheck."""
