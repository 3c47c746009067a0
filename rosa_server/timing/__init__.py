"""How long models run and how they take turns: one model for planner, gateway, simulator and emulated worker. Pure."""
