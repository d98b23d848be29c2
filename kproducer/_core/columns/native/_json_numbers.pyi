"""Numbers as JSON; ``_json_writer`` uses it."""
