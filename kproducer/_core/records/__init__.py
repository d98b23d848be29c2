"""Record batches: built in pooled buffers, compressed, closed, and read back to be split.

The kernel encodes the bytes; this package decides when to compress, when a batch is full and when it is
closed. It does not know brokers, requests or partitions.
"""
