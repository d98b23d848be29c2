from kproducer.kernel.pure import BatchOutcome as BatchOutcome
from kproducer.kernel.pure import Deliveries as Deliveries
from kproducer.kernel.pure import RecordFuture as RecordFuture
from kproducer.kernel.pure import set_future_type as set_future_type
