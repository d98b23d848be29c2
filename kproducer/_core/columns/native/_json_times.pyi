"""Dates, times and durations as JSON; ``_json_writer`` uses it."""
