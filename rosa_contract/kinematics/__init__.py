"""What rows of actions mean: where an arm's tool is, how it gets somewhere, how a chunk joins the one before."""
