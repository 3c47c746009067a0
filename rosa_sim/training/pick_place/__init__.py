"""Training and evaluation of the models of the pick-and-place cell."""
