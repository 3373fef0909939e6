"""minigrad.capture."""
