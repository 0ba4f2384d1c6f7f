"""Benchmarks: each row a side-by-side with a named peer in the same run. `regard bench NAME`."""
