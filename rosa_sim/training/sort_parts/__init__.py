"""The data, and the training, of the model that sorts parts."""
