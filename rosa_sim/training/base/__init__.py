"""What both training stacks use: the training loop, trials on unseen seeds, results."""
