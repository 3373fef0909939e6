"""minigrad.optim: optimizers and schedules."""
