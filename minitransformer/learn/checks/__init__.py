"""One file for each exercise: its lesson, three hints, and the check of an answer."""
