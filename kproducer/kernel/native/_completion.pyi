from kproducer.kernel.pure import BatchOutcome as BatchOutcome
from kproducer.kernel.pure import Deliveries as Deliveries
from kproducer.kernel.pure import RecordFuture as RecordFuture
from kproducer.kernel.pure import fast_done as fast_done
from kproducer.kernel.pure import fast_exception as fast_exception
from kproducer.kernel.pure import fast_result as fast_result
