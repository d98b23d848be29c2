"""Reads blocks of Arrow rows, for the other compiled modules."""
