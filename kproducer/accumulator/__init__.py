"""RecordAccumulator: batches that wait to be sent, their memory, their records' futures."""
