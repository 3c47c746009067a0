"""The scenes of the simulated cell: what stands there, and how one seed's cell differs from another's."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass

from rosa_sim.cell.layout import pieces
from rosa_sim.cell.layout import sort_pieces as sort_pieces
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS
from rosa_sim.cell.layout.sort_variation import SortVariation
from rosa_sim.cell.layout.variation import CellVariation, Variation


@dataclass(frozen=True)
class Scene:
    """One scene around the arm."""

    pieces: Callable[[], list[ET.Element]]  # MJCF of everything but the arm
    variation: Callable[[int], CellVariation]  # the cell of a seed


SCENES = {
    PICK_PLACE: Scene(pieces.pieces, Variation.of),
    SORT_PARTS: Scene(sort_pieces.pieces, SortVariation.of),
}
