"""The fleet simulator: the real serving core, simulated GPUs, and robots that work in a closed loop."""
