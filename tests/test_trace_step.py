"""What a reader follows through one training step stays short (`python -m tools.trace_step`)."""

from tools.trace_step import trace, training_step


def test_a_training_step_stays_short():
    step = trace(training_step())
    assert len(step.files) <= 30, step
    assert step.functions <= 170, step
    assert len(step.calls) <= 1600, step
    assert step.changes <= 450, step
