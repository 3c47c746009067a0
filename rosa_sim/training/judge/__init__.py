"""How good the shipped models are: one loop that plays episodes, and what is counted of them."""
