"""Benchmarks: each row a side-by-side with a named peer in the same run. `python -m bench NAME`."""
