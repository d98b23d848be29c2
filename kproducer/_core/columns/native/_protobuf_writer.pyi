"""The compiled twin of ``pure/protobuf_writer.py``; ``_row_encoder`` uses it."""
