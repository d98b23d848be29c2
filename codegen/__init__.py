"""The compiler: Kafka's message specs in, Python codecs out.

The way of a spec: loader (text to JSON nodes that know their line) -> parser (nodes to the typed model) ->
check (what the types cannot say) -> plan (one straight-line list of steps a version) -> render (templates).
It runs at build time only; nothing at run time imports it.
"""
