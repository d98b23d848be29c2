"""A model of Kafka and Spark in memory, in which the real protocols of ``kproducer.spark.exactly_once`` run.

    kafka_model     transaction coordinator, committed offsets, what a read_committed reader sees
    actors          a task's or driver's protocol as a thing that stops before each call to Kafka
    spark_model     runs, tasks, attempts, zombies, checkpoints: what may happen next, and what follows
    checks          what has to be true after every step
    explorer        every order of events within bounds
    scenarios       the bounds, and the protocol with one part taken out

A protocol is ordinary blocking code. An actor runs it from its beginning with the answers it has got so far,
and stops at the first call that has none; so an actor is a tuple of answers, states can be copied and
compared, and no thread is needed. The model has no time: each event may happen at any moment.

    make exactly-once-model     the large scenarios, with figures
"""
