"""minigrad.capture: what takes long."""
