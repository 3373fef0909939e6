"""minigrad.ops: every op, and what single ones promise."""
