"""The compiled ``RowSender``; described in ``kproducer.kernel.pure.send_many``."""

from kproducer.kernel.pure.send_many import RowSender as RowSender
