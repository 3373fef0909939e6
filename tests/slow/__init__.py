"""What a bare `pytest` leaves out: `python -m pytest tests/slow`."""
