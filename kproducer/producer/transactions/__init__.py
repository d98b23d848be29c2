"""Idempotence and transactions: who we are to brokers, which number a batch has, where a transaction is.

No sockets and no clock in here, and nothing that waits: time and answers come in as arguments. What the
sender and the accumulator call is listed in ``docs/transactions.md``.
"""
