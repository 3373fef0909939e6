"""Tests mirror the packages: a folder for each; slow/ holds what a bare `pytest` leaves out."""
