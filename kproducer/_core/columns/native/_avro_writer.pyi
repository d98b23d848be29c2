"""The compiled twin of ``pure/avro_writer.py``; ``_row_encoder`` uses it."""
