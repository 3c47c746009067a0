"""The two loops of a robot, around its core and around its arm, and what they tell and ask for."""
