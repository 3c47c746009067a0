"""LeRobot's policy `rosa`: a client of a ROSA server. Importing this registers it."""

from lerobot_policy_rosa.configuration_rosa import RosaConfig

__all__ = ["RosaConfig"]
