"""Pipelined decoding of action tokens (ActionFlow): each pass over the weights serves the frames of several moments."""
