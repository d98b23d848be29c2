"""Arrow columns as records: read them, encode them in Avro, JSON or Protobuf, write them into batches.

``arrow`` has the reader and the encoders, ``avro_records`` the encoder of dictionaries, ``encoder_plan`` the
border to ``kproducer.columnar``. As in ``kproducer._core.kernel``, ``native`` is compiled; ``pure`` is the
reference, and what installations without a compiler run: their ``send_arrow`` and Spark sink need pyarrow.
"""
