"""RecordAccumulator: batches that wait to be sent, their memory, their records' futures.

Invariants, each with its test in ``tests/unit/accumulator/``:

- A queue is in ``active`` exactly when it holds batches, and holds them in sending order
  (``test_record_accumulator_states``).
- A queue whose first batch changes is added to ``changed`` after the change
  (``test_record_accumulator_ready``, as the next one).
- Nothing is drained from a muted partition.
- ``slot.appender`` belongs to the open batch. It is empty while that batch makes room, and once it is
  closed; after ``close()`` no slot is filled (``test_append_slots``).
- An abort after ``close()`` sees every batch: it waits for appends that did not see the close
  (``test_record_accumulator``, as the next two).
- The buffer of a batch in flight does not go back to the pool.
- No queued batch expires before ``next_expiry_ms``.
- A batch is in a queue and incomplete, or neither, even if Ctrl-C interrupts the append
  (``test_record_accumulator_memory``, as the next one).
- A buffer has one owner: an append, a batch or the pool.
- The batches of a partition are in its queue or in a lane, all of them, even if Ctrl-C or a lack of memory
  interrupts the change; a lane's buffers have one owner as well (``test_interrupted_lanes``).
- A thread does not wait for a lock that it holds, nor for a queue while it holds another queue or the pool;
  Ctrl-C while a lock is being taken leaves it free (``test_owned_lock``).
"""
