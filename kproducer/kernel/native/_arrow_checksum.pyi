"""The compiled ``RowChecksum``; described in ``kproducer.kernel.pure.arrow_checksum``."""

from kproducer.kernel.pure.arrow_checksum import RowChecksum as RowChecksum
