"""Defaults that the command line shows before anything else is imported."""

BOARD = "7x5:35:26"  # columns x rows, sides of square and marker in mm: fills an A4 page
REPORT = "report.png"
