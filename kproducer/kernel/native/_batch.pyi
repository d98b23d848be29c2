from kproducer.kernel.pure import BatchWriter as BatchWriter
from kproducer.kernel.pure import partition_for_key as partition_for_key
from kproducer.kernel.pure import record_size_upper_bound as record_size_upper_bound
