"""Frames and messages: everything about Kafka's wire format except sockets and record batches.

Sits on the generated package ``kproducer_messages`` and adds what the specs do not say: which header goes
with which version, how frames are delimited, how records travel without being copied.
"""
