"""This machine: what it has (`regard doctor`), and whether regard computes here what it should
(`regard selftest`)."""
