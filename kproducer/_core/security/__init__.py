"""From security settings to what connections need: TLS contexts and transports, SASL mechanisms.

Opens no connection to a broker. Tokens come from token endpoints, and tickets from a KDC, on other threads.

Source: Kafka package ``org.apache.kafka.common.security``.
"""
