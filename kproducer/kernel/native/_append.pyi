from kproducer.kernel.pure import AppendSlot as AppendSlot
from kproducer.kernel.pure import RecordAppender as RecordAppender
from kproducer.kernel.pure import StickyPartition as StickyPartition
from kproducer.kernel.pure import TopicSlots as TopicSlots
