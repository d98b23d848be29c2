from kproducer.kernel.pure import Lane as Lane
from kproducer.kernel.pure import RecordAppender as RecordAppender
from kproducer.kernel.pure import SendPath as SendPath
from kproducer.kernel.pure import StickyChoice as StickyChoice
from kproducer.kernel.pure import StickyPartition as StickyPartition
from kproducer.kernel.pure import TopicLanes as TopicLanes
