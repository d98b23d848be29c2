"""kproducer: a Kafka producer for Python and PySpark. Public names only, no logic."""
