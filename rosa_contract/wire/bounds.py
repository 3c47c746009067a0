"""How much a message may carry: the bounds that several messages have in common."""

from __future__ import annotations

MAX_NAME_CHARS = 128
MAX_TEXT_CHARS = 1 << 16
MAX_IMAGES = 16
MAX_ARRAYS = 64
MAX_BATCH = 4096
MAX_ROBOTS = 1 << 16
MAX_COUNTS = 32
MAX_SPACES = 32
MAX_GATEWAYS = 256
MAX_ID = (1 << 63) - 1
MAX_LENGTH = 1 << 20  # of an image's side, px, or of a state, in values
MAX_RATE_HZ = 1e6
MAX_PACE = 1e3
MAX_CATCH_UP = 10.0
MAX_START_MS = 60_000.0
MAX_BUDGET_MS = 600_000.0
MAX_DURATION_MS = 1e9
