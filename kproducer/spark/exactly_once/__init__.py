"""Exactly once from Spark to Kafka: a transaction per task, committed by the driver, recognised in a replay.

    write_state      names of writes, what is kept in Kafka, and the messages from tasks to the driver
    ports            what the two protocols need from Kafka
    task_protocol    the steps of a task, in order; independent of Spark and Kafka
    driver_protocol  the steps of a commit or abort, and what is refused; independent of Spark and Kafka
    kafka_ports      the ports on real brokers
    full_refresh     refuses the reset checkpoint of a declarative pipeline
    spark_write      connects Spark's writers with the protocols

docs/exactly-once.md explains why the steps are sufficient, docs/decisions/0033-exactly-once-spark.md which
other designs were rejected. Import submodules by their full names.
"""
