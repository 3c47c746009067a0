"""What the option `engine` of a model may say to the scheduler; any other name is the backend's own."""

from __future__ import annotations

AUTO_ENGINE = "auto"  # in a factory file: the schedule says which
SHARING_ENGINE = "kv_sharing"  # with it, components of a robot that ask about one observation cost less
