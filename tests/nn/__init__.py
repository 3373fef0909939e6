"""minigrad.nn: modules."""
