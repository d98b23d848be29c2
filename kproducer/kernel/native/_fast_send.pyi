from kproducer.kernel.pure import FastSend as FastSend
from kproducer.kernel.pure import fast_send as fast_send
