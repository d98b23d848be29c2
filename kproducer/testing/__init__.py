"""Tools for tests of applications that write to Kafka."""
