"""All attempts, by finding. A new one is a row of one of these tables."""

from __future__ import annotations

from rosa_sim.hostile.answers import ANSWERS
from rosa_sim.hostile.attempt import Attempt
from rosa_sim.hostile.crowds import CROWDS
from rosa_sim.hostile.floods import FLOODS
from rosa_sim.hostile.names import NAMES
from rosa_sim.hostile.pictures import PICTURES

ATTEMPTS: tuple[Attempt, ...] = (*FLOODS, *CROWDS, *NAMES, *ANSWERS, *PICTURES)
