"""What was not delivered is in the file of rejected input, or on stderr."""

from __future__ import annotations

import errno
import io
import json

import pytest

from kproducer.cli.deliveries import Deliveries, Origin
from kproducer.errors import KafkaError, Outcome


class Failed:
    """A ``SendManyResult`` of one record that was rejected."""

    def __len__(self) -> int:
        return 1

    def wait(self) -> None:
        pass

    def failures(self) -> list[tuple[int, KafkaError]]:
        return [(0, KafkaError("wrong").with_outcome(Outcome.REJECTED))]


def unreadable(_index: int) -> bytes:
    raise MemoryError


def test_a_record_whose_input_cannot_be_shown_does_not_end_the_reports():
    echoed: list[str] = []
    deliveries = Deliveries(1000, echoed.append, None)
    for origin in (Origin("data", [1], unreadable), Origin("data", [2], [b"two"].__getitem__)):
        deliveries.add(Failed(), origin, 10)  # type: ignore[arg-type]
    deliveries.finish()
    assert (deliveries.undecided, deliveries.failed) == (0, {Outcome.REJECTED: 2})
    assert echoed == [
        "data, line 1: rejected: MemoryError()",
        "data, line 2: rejected: wrong; input: two",
    ]


class FullDisk(io.FileIO):
    """A file on a disk that has ``room`` bytes left."""

    room = 0

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 20])
def test_entries_that_do_not_fit_are_on_stderr_and_leave_no_part_in_the_file(tmp_path, room):
    file, echoed = FullDisk(tmp_path / "rejected", "ab"), []
    deliveries = Deliveries(1000, echoed.append, file)
    file.room = room
    origin = Origin("data", [1, 2, 3], [b"one", b"two", b"three"].__getitem__)
    for index in range(2):
        deliveries.report(origin, index, "wrong", Outcome.NOT_SENT)
    file.room = 1000
    deliveries.report(origin, 2, "wrong", Outcome.NOT_SENT)
    deliveries.finish()
    file.close()
    assert [json.loads(line)["line"] for line in (tmp_path / "rejected").read_text().splitlines()] == [3]
    assert echoed == [
        "The file of rejected input cannot be written: No space left on device; entries that it does not"
        " have are shown here",
        "data, line 1: not sent: wrong; input: one",
        "data, line 2: not sent: wrong; input: two",
        "data, line 3: not sent: wrong",
    ]
