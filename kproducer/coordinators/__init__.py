"""Talking to coordinators without being a producer: end others' transactions, fence them, read offsets.

``CoordinatorSession`` is the face; the rest are dialogues without sockets and clock, and the loop that
carries their requests. What a request is, and what its answer means for one producer, is in
``kproducer.producer.transactions``.
"""
