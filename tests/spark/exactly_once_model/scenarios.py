"""What is explored: bounds for the protocol as it is, and the protocol with one part taken out.

``CONTROLS`` says what is seen to go wrong without each part; ``COURTESIES`` are parts that no row depends on:
they save time, or work, or stand in for another part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import attrs

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction
from kproducer.errors import KafkaError, KafkaTimeoutError
from kproducer.spark.exactly_once import driver_protocol, task_protocol, write_state
from kproducer.spark.exactly_once.write_state import WriteKind
from tests.spark.exactly_once_model.actors import (
    IDENTITY,
    Actors,
    Checksum,
    ModelDriverPort,
    ModelTaskPort,
    Rows,
)
from tests.spark.exactly_once_model.explorer import Report, bounds_of, explore
from tests.spark.exactly_once_model.kafka_model import KafkaModel
from tests.spark.exactly_once_model.spark_model import Bounds, World


@attrs.frozen(kw_only=True)
class Scenario:
    """Bounds, a cluster, and what is changed in the protocol.

    Attributes:
        kafka: arguments of ``KafkaModel``.
        actors: arguments of ``Actors``.
        patches: (object, attribute, replacement) for as long as it runs.
        wrong: what is seen to go wrong: a part of the violation's text; ``None``: nothing may.
    """

    name: str
    bounds: Bounds
    kafka: Mapping[str, Any] = attrs.field(factory=dict)
    actors: Mapping[str, Any] = attrs.field(factory=dict)
    patches: Sequence[tuple[Any, str, Any]] = ()
    wrong: str | None = None

    def run(self, max_states: int = 10**9, *, restarts: bool = True) -> Report:
        """Explore it."""
        actors = self.new_actors()
        with self.patched():
            return explore(lambda: self.world(actors), actors, max_states=max_states, restarts=restarts)

    def new_actors(self) -> Actors:
        return Actors(**self.actors)

    def world(self, actors: Actors) -> World:
        """The first state."""
        return World(self.bounds, KafkaModel(**self.kafka), actors)

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for subject, attribute, replacement in self.patches:
                stack.enter_context(mock.patch.object(subject, attribute, replacement))
            yield


_TWO_TASKS = ["a", "b"]
_ONE_TASK = ["ab"]
_EXCHANGED = ["b", "a"]
_EMPTY_TASK = ["", "ab"]

#: Within a minute together, and all states of each.
DEFAULT = [
    Scenario(name="one run, two batches", bounds=bounds_of(_TWO_TASKS, batches=2, runs=1)),
    Scenario(
        name="one run, two batches, requests in any order, markers that take their time",
        bounds=bounds_of(_TWO_TASKS, batches=2, runs=1, fine=True),
        kafka={"slow_markers": True},
    ),
    Scenario(
        name="speculative copies and failed tasks",
        bounds=bounds_of(_TWO_TASKS, batches=2, runs=1, attempts=1, task_failures=1),
    ),
    Scenario(
        name="answers are lost, calls fail",
        bounds=bounds_of(_TWO_TASKS, batches=2, runs=1, lost_answers=1, failed_calls=1, task_failures=1),
    ),
    Scenario(
        name="transactions run out of time",
        bounds=bounds_of(_TWO_TASKS, batches=2, runs=1, time_outs=2, task_failures=1),
    ),
    Scenario(
        name="a second driver, divided otherwise",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, _EXCHANGED, _EMPTY_TASK),
    ),
    Scenario(name="a second driver with more tasks", bounds=bounds_of(_ONE_TASK, _TWO_TASKS, _EMPTY_TASK)),
    Scenario(name="a second driver, two batches", bounds=bounds_of(_TWO_TASKS, batches=2)),
    Scenario(
        name="a second driver, protocol 1, a transaction runs out of time",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, time_outs=1),
        kafka={"version": 1},
    ),
    Scenario(
        name="a second driver, an answer is lost",
        bounds=bounds_of(_TWO_TASKS, lost_answers=1),
    ),
    Scenario(
        name="a batch with a writeId, started twice, divided otherwise",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK),
        actors={"kind": WriteKind.NAMED, "has_run_names": False},
    ),
    Scenario(
        name="epochs are used up, producer ids expire",
        bounds=bounds_of(_TWO_TASKS, expiries=1),
        kafka={"last_epoch": 1},
    ),
    Scenario(
        name="offsets are deleted after the first batch",
        bounds=bounds_of(_ONE_TASK, _TWO_TASKS, batches=2, retentions=1),
    ),
    Scenario(
        name="a marker alone is deleted after the first batch",
        bounds=bounds_of(_ONE_TASK, _EXCHANGED[::-1], batches=2, lost_markers=1, runs=1),
    ),
    Scenario(
        name="an older checkpoint is brought back",
        bounds=bounds_of(_ONE_TASK, _EMPTY_TASK, batches=2, restores=1),
    ),
    Scenario(
        name="requests of a call in any order, markers that take their time",
        bounds=bounds_of(["a"], ["", "a"], fine=True),
        kafka={"slow_markers": True},
    ),
    Scenario(
        name="the same with one driver, its copies, and chunks",
        bounds=bounds_of(["ac", "b"], runs=1, fine=True, rows_in_chunk=1, attempts=1, time_outs=1),
        kafka={"slow_markers": True},
    ),
]

#: Millions of states.
LARGE = [
    Scenario(
        name="two drivers, two batches, divided otherwise",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, _EXCHANGED, batches=2),
    ),
    Scenario(name="three drivers, divided otherwise", bounds=bounds_of(_TWO_TASKS, _ONE_TASK, runs=3)),
    Scenario(name="a copied checkpoint", bounds=bounds_of(_TWO_TASKS, batches=2, copies=1)),
    Scenario(
        name="an older checkpoint, divided otherwise",
        bounds=bounds_of(_TWO_TASKS, _EXCHANGED, batches=2, restores=1),
    ),
    Scenario(
        name="two drivers, copies of tasks, a transaction runs out of time",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, attempts=1, time_outs=1),
    ),
    Scenario(
        name="two drivers, protocol 1, two lost answers",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, lost_answers=2),
        kafka={"version": 1},
    ),
    Scenario(
        name="two drivers, requests in any order, slow markers",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK, fine=True),
        kafka={"slow_markers": True},
    ),
]


class _NoMarkers(ModelTaskPort):
    def stable_offset(self, group: str) -> OffsetAndMetadata | None:
        return None


class _DriverSeesNoMarkers(ModelDriverPort):
    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        return super().stable_offsets(groups) if list(groups) == [IDENTITY.driver] else dict.fromkeys(groups)


class _TaskSeesNoDecision(ModelTaskPort):
    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        return None


class _NoDecision(ModelDriverPort):
    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        return dict.fromkeys(groups) if list(groups) == [IDENTITY.driver] else super().stable_offsets(groups)

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        pass


class _DriverNotFenced(ModelDriverPort):
    def fence(self, transactional_ids: Sequence[str]) -> None:
        if list(transactional_ids) != [IDENTITY.driver]:
            super().fence(transactional_ids)

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        self._ask("offset_commit", ((group, offset),))


class _UncoveredNotFenced(ModelDriverPort):
    def fence(self, transactional_ids: Sequence[str]) -> None:
        if list(transactional_ids) == [IDENTITY.driver]:
            super().fence(transactional_ids)


class _CommitsBeforeItDecides(ModelDriverPort):
    _decision: tuple[str, str, OffsetAndMetadata]

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        self._decision = (transactional_id, group, offset)

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        outcomes = super().commit(prepared)
        super().decide(*self._decision)
        return outcomes


class _NotConfirmed(ModelDriverPort):
    _has_decided = False

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        super().decide(transactional_id, group, offset)
        self._has_decided = True

    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        return {} if self._has_decided else super().stable_offsets(groups)


class _MarkerOutside(ModelTaskPort):
    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        self._ask("offset_commit", ((group, offset),))


class _ConstantChecksum(Checksum):
    def update(self, batch: Rows) -> None:
        self.rows += batch.num_rows


class _UnstableTask(ModelTaskPort):
    def stable_offset(self, group: str) -> OffsetAndMetadata | None:
        return self.current_offset(group)


class _UnstableDriver(ModelDriverPort):
    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        return dict(zip(groups, self._ask("unstable_fetch", tuple(groups)), strict=True))


class _UncoveredNeitherFencedNorStable(_UncoveredNotFenced, _UnstableDriver):
    pass


class _DriverDoesNotLook(ModelDriverPort):
    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        raise KafkaTimeoutError("the look takes too long")


class _DriverAbortsNothing(ModelDriverPort):
    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        pass


def _nothing(*_: Any) -> None:
    pass


_DIVIDED_OTHERWISE = bounds_of(_TWO_TASKS, _ONE_TASK, _EXCHANGED, _EMPTY_TASK)
_TWICE = "visible twice"

#: One part taken out of each.
CONTROLS = [
    Scenario(name="no markers", bounds=bounds_of(_TWO_TASKS), actors={"task_port": _NoMarkers}, wrong=_TWICE),
    Scenario(
        name="InitProducerId fences nobody",
        bounds=bounds_of(_TWO_TASKS),
        kafka={"fencing": False},
        wrong=_TWICE,
    ),
    Scenario(
        name="no decision",
        bounds=_DIVIDED_OTHERWISE,
        actors={"driver_port": _NoDecision, "task_port": _TaskSeesNoDecision},
        wrong=_TWICE,
    ),
    Scenario(
        name="the driver is not fenced",
        bounds=_DIVIDED_OTHERWISE,
        actors={"driver_port": _DriverNotFenced},
        wrong=_TWICE,
    ),
    Scenario(
        name="tasks that a replay does not have are neither fenced nor waited for",
        bounds=_DIVIDED_OTHERWISE,
        actors={"driver_port": _UncoveredNeitherFencedNorStable},
        wrong=_TWICE,
    ),
    Scenario(
        name="markers of tasks that a replay does not have are not looked at",
        bounds=_DIVIDED_OTHERWISE,
        actors={"driver_port": _DriverSeesNoMarkers},
        wrong=_TWICE,
    ),
    Scenario(
        name="the driver does not compare the decisions that its tasks saw",
        bounds=_DIVIDED_OTHERWISE,
        patches=[(driver_protocol, "_refuse_overtaken", _nothing)],
        wrong=_TWICE,
    ),
    Scenario(
        name="commit before decision",
        bounds=_DIVIDED_OTHERWISE,
        actors={"driver_port": _CommitsBeforeItDecides},
        wrong=_TWICE,
    ),
    Scenario(
        name="the marker is not part of the transaction",
        bounds=bounds_of(_TWO_TASKS),
        actors={"task_port": _MarkerOutside},
        wrong="never see",
    ),
    Scenario(
        name="the checksum is ignored",
        bounds=bounds_of(_TWO_TASKS, _EXCHANGED),
        actors={"new_checksum": _ConstantChecksum},
        wrong=_TWICE,
    ),
    Scenario(
        name="a repetition counts as committed where only a part is",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK),
        patches=[(driver_protocol, "_is_committed", lambda *_: True)],
        wrong="never see",
    ),
    Scenario(
        name="the driver does not wait until its decision can be read",
        bounds=bounds_of(_TWO_TASKS, batches=2, runs=1),
        kafka={"slow_markers": True},
        actors={"driver_port": _NotConfirmed},
        wrong="alone, ended in CommitFailedError",
    ),
    Scenario(
        name="a decision has no nonce",
        bounds=bounds_of(_TWO_TASKS, _EXCHANGED, runs=3),
        actors={"has_nonces": False, "has_run_names": False},
        wrong=_TWICE,
    ),
    Scenario(
        name="older numbers are not refused",
        bounds=bounds_of(_TWO_TASKS, batches=2, restores=1),
        patches=[
            (task_protocol, "refuse_later", _nothing),
            (driver_protocol, "refuse_later", _nothing),
            (driver_protocol.DriverProtocol, "_refuse_uncertain", _nothing),
        ],
        wrong=_TWICE,
    ),
    Scenario(
        name="lost decisions are not refused",
        bounds=bounds_of(_TWO_TASKS, batches=2, retentions=1),
        actors={"write_when_uncertain": True},
        wrong=_TWICE,
    ),
    Scenario(
        name="lost markers are not refused",
        bounds=bounds_of(_TWO_TASKS, batches=2, lost_markers=1, runs=1),
        actors={"write_when_uncertain": True},
        wrong=_TWICE,
    ),
    Scenario(
        name="limit: everything is deleted before the first batch is in the commit log",
        bounds=bounds_of(_TWO_TASKS, first_retentions=1),
        wrong=_TWICE,
    ),
]

#: Parts that no row depends on: without each, nothing goes wrong.
COURTESIES = [
    Scenario(
        name="offsets are read while transactions may change them",
        bounds=bounds_of(["a"], ["", "a"], fine=True),
        kafka={"slow_markers": True},
        actors={"task_port": _UnstableTask, "driver_port": _UnstableDriver},
    ),
    Scenario(
        name="tasks that a replay does not have are waited for, and not fenced",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK),
        actors={"driver_port": _UncoveredNotFenced},
    ),
    Scenario(
        name="the driver fences without a look before",
        bounds=bounds_of(_ONE_TASK, _EMPTY_TASK, batches=2, restores=1),
        actors={"driver_port": _DriverDoesNotLook},
    ),
    Scenario(
        name="nothing is aborted after a failure",
        bounds=bounds_of(_TWO_TASKS, _ONE_TASK),
        actors={"driver_port": _DriverAbortsNothing},
    ),
    Scenario(
        name="the first commit of a run fences nothing where there is a decision of another batch",
        bounds=bounds_of(_ONE_TASK, _TWO_TASKS, batches=2),
        patches=[(write_state.Decision, "is_of_run", lambda *_: True)],
    ),
    Scenario(
        name="tasks do not refuse older numbers, only the driver does",
        bounds=bounds_of(_ONE_TASK, _EMPTY_TASK, batches=2, restores=1),
        patches=[(task_protocol, "refuse_later", _nothing)],
    ),
]
