"""Faults on purpose: real processes, real sockets, off by default. `table.py` lists them and what is promised.

No product code knows of any of it: faults are put between product processes (`cell.py`) or around them.
"""
