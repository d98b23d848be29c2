from kproducer.kernel.pure import BatchWriter as BatchWriter
from kproducer.kernel.pure import partition_for_key as partition_for_key
