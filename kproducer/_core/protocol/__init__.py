"""Frames and messages: everything about Kafka's wire format except sockets and record batches.

Uses the generated package ``kproducer_messages`` and adds what the specs do not contain: the header of each
version, the framing, and requests that reference record bytes without copying them.
"""
