"""Faults on purpose: real processes, real sockets, off by default. `table.py` says what there is and what is promised.

No product code knows of any of it: faults are put between product processes (`cell.py`) or around them.
"""
