"""Record batches: built in pooled buffers, compressed, closed, read back.

Stands on ``kproducer.kernel`` (which does the byte work) and decides what the kernel may not: when to
compress, when a batch is full, what a batch's states are. Knows nothing of brokers, requests or partitions.
"""
