"""Shared key and value caches, pipelined decoding, and what they gain."""
