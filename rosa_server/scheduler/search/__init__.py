"""The search for action rates and a placement (ROSA 3.4.2, 3.4.3), its bound, and the reasons of a refusal."""
