"""The compiled twin of ``columns.pure``: one ``.pyx`` per module, and a ``.pyi`` that types it."""
