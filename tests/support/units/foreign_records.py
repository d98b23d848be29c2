"""Record code of other clients as a reference. Importing kafka-python warns, which is an error in tests."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import aiokafka.record.default_records as aiokafka_records
    import kafka.record.default_records as kafka_python_records
    from kafka.partitioner.default import murmur2
    from kafka.record.util import decode_varint, encode_varint

__all__ = ["aiokafka_records", "decode_varint", "encode_varint", "kafka_python_records", "murmur2"]
