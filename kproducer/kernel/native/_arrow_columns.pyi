"""Reads the columns of Arrow chunks; for the compiled rooms beside it alone."""
