"""What `benchmarks/hostile.py` tries, by finding."""
