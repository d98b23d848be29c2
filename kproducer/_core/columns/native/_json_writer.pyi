"""The compiled twin of ``pure/json_writer.py``; ``_row_encoder`` uses it."""
