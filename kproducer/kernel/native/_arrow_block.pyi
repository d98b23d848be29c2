"""Plans blocks of Arrow rows; for the compiled modules beside it alone."""
