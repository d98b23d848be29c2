"""The compiler from Kafka's message specs to Python encoders and decoders.

The stages: loader (text to JSON nodes with line numbers) -> parser (nodes to the typed model) -> check (rules
that the types cannot express) -> plan (one straight-line list of steps per version) -> render (templates).
It runs at build time only; nothing at run time imports it.
"""
