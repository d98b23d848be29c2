"""``send_many`` and ``send_arrow``: many records in one call, on the caller's thread."""
