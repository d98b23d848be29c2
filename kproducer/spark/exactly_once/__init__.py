"""Exactly once from Spark to Kafka: a transaction for each task, ended by the driver, recognised in a replay.

    identity, marker, task_messages     what is named, kept in Kafka, and sent from tasks to the driver
    task_protocol, driver_protocol      the steps in order, and what is refused; neither Spark nor Kafka
    ports                               what they need of Kafka
    kafka_ports                         that, on real brokers

The argument is in docs/exactly-once.md. Submodules are imported by their full names.
"""
