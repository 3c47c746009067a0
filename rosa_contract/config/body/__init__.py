"""The links of an arm as a robot file says them, and as a URDF file does."""
