"""A file for each exercise, with its lesson, three hints, and the check of an answer."""
