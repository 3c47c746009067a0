"""Defaults and bounds that the command line shows before anything else is imported."""

BOARD = "7x5:35:26"  # columns x rows, sides of square and marker in mm: fills an A4 page
MIN_VIEWS = 8  # pictures that a place needs
REPORT = "report.png"
