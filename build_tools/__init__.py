"""Compiles and packages kproducer, and installs what its commands need. Not part of a wheel."""
