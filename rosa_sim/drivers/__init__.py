"""Drivers of the simulated cell; a robot file names them, nothing imports them."""
