"""The names of colours and bins, in the order of their ids."""

from __future__ import annotations

COLOURS = ("red", "yellow", "green", "blue", "purple", "white", "grey", "black")
BINS = ("left", "right")
BLOCKS = ("block0", "block1", "block2")
