"""minigrad.checks."""
