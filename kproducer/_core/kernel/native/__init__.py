"""The compiled twin of ``kernel.pure``: one ``.pyx`` for each room, and a ``.pyi`` that types it.

Built when the package is installed and a C compiler is there (``build_tools/native_build.py``); ``make
native`` builds it in place.
"""
