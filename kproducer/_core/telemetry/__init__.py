"""Telemetry: the producer's metrics for the cluster's operators, pushed to a broker that asks for them.

``ClientTelemetry`` decides what is due, ``MetricsPayload`` and ``otlp_metrics`` make the content of a push,
``TelemetryLink`` sends the requests. Knows nothing of batches and sockets. Source: KIP-714.
"""
