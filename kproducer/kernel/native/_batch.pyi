from kproducer.kernel.pure import BatchWriter as BatchWriter
from kproducer.kernel.pure import murmur2 as murmur2
from kproducer.kernel.pure import record_size_upper_bound as record_size_upper_bound
