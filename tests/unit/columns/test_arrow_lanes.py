"""ArrowRows, if a partition is armed: rows go to its batch in the data plane."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from tests.support.units.lane_bench import Bench, interruptible
from tests.unit.columns.arrow_kit import Locations, Twin

STICKY = -1


class Stage:
    """A topic with one partition, which is armed, and planned rows for it."""

    def __init__(self, native: Twin, bench: Bench, count: int, partition: int) -> None:
        kernel = native.append
        slot = kernel.AppendSlot(threading.RLock())
        slot.part = bench.part("t", 0)
        self.slots = kernel.TopicSlots()
        self.slots.slots, self.slots.partition_count = [slot], 1
        self.locations = Locations(count)
        source = native.source(pa.table({"value": [b"%050d" % number for number in range(count)]}))
        self.rows = native.arrow(source, (0, -1, -1, -1, -1, -1), 1000, False)
        self.rows.add_topic(b"t", 1, self.slots)
        source.next_chunk()
        self.locations.start_chunk(self.rows)
        self.rows.plan(0, 7, partition)


@pytest.mark.parametrize("where", ["make_result", "deallocate", "on_wake"])
def test_rows_are_noted_whatever_is_interrupted(native: Twin, where: str) -> None:
    errors: list[BaseException] = []
    returned: list[Any] = []
    arguments = {"make_result": ProduceRequestResult, "deallocate": returned.extend, "on_wake": lambda: None}
    replaced = {where: interruptible(arguments[where], errors)}
    bench = Bench(linger_ms=60_000, first_bytes=1024, plane=replaced)
    interrupts = 0
    try:
        stage = Stage(native, bench, 100, 0)
        is_over = False
        while not is_over:
            errors[:] = [KeyboardInterrupt()]
            assert bench.plane.wait_until_ms
            try:
                assert stage.rows.append_planned() == -1
                is_over = True
            except KeyboardInterrupt:
                interrupts += 1
            accepted = sum(batch.record_count for batch in bench.incomplete)
            assert sum(number >= 0 for number in stage.locations.result_numbers) == accepted
        assert interrupts > 0
        places = {(batch.result, index) for batch in bench.incomplete for index in range(batch.record_count)}
        assert {row[:2] for row in stage.locations.rows()} == places
        assert len(places) == 100
    finally:
        bench.close()


def test_a_row_of_the_general_path_leaves_all_its_choices_to_the_next_one(native: Twin) -> None:
    bench = Bench(linger_ms=60_000)
    try:
        stage = Stage(native, bench, 2, STICKY)
        # At its end before the first record.
        ended, fresh = (native.append.StickyPartition(0, least, 1 << 40, 9) for least in (0, 1 << 40))
        choices: list[Any] = []

        def choose() -> Any:
            choices.append(None)
            return ended

        stage.slots.sticky, stage.slots.choose = ended, choose
        assert stage.rows.append_planned() == 0
        assert len(choices) == 3
        stage.slots.choose = lambda: fresh
        assert stage.rows.append_planned() == -1
        assert stage.locations.rows()[1] is not None
    finally:
        bench.close()
