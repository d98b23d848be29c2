"""``python -m tests.unit.kernel.interleavings``: every interleaving in the data plane, and planted bugs.

``data_plane_model.c`` has the model. Without names, this runs all of its scenarios, and then has it find
every mutant. Exit status 1: a promise does not hold, or a mutant was not found.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

from build_tools.native_build import ROOT

CORE = ROOT / "kproducer" / "_core" / "kernel" / "native"
_MODEL = Path(__file__).with_name("data_plane_model.c")
_MOST_STATES = 20_000_000
#: Both replace functions of C, so some checks of gcc do not apply.
_OPTIONS = ("-std=gnu11", "-O2", "-w")

#: Of `make test`. They need a second each.
# fmt: off
SCENARIOS = (
    "append", "partitions", "memory", "detach", "take-back", "errors", "linger", "flush", "compression",
    "compression-detach", "abort", "commit",
)
#: They need minutes and gigabytes. Those with more states than ``_MOST_STATES`` are not complete.
LARGER = (
    "append-more", "detach-more", "take-back-more", "errors-more", "linger-more", "two-compress",
    "compression-more", "abort-more",
)
# fmt: on


@attrs.frozen
class Mutant:
    """A bug that is planted in the core, or in what the model does around it.

    Attributes:
        name: unique.
        what: the bug, in one sentence.
        old: what is replaced in one of the two files; occurs exactly once.
        new: what it is replaced by.
        scenario: finds it.
    """

    name: str
    what: str
    old: str
    new: str
    scenario: str


MUTANTS = (
    Mutant(
        "wake-up-decided-too-early",
        "A caller looks whether the I/O thread sleeps before it has changed the list.",
        "    int64_t due_ms = place(part, false);\n"
        "    if (due_ms >= atomic_load(&part->plane->sleep_until_ms)) return false;",
        "    int64_t until_ms = atomic_load(&part->plane->sleep_until_ms);\n"
        "    if (place(part, false) >= until_ms) return false;",
        "append",
    ),
    Mutant(
        "sleep-announced-too-late",
        "The I/O thread looks at the lists before it announces its sleep.",
        "    kp_plane_set_sleep(plane, until_ms);\n    for (",
        "    for (",
        "append",
    ),
    Mutant(
        "announces-what-may-go",
        "The I/O thread says that it is awake as a batch is due, which a caller then takes to compress it.",
        "    kp_plane_set_sleep(plane, until_ms);\n    for (ptrdiff_t i = 0; i < lane_count; i++)"
        " until_ms = earlier(until_ms, kp_lane_next_ms(lanes[i]));\n"
        "    kp_plane_set_sleep(plane, until_ms);\n",
        "    kp_plane_set_sleep(plane, earlier(until_ms, kp_lane_next_ms(lanes[0])));\n"
        "    until_ms = earlier(until_ms, kp_lane_next_ms(lanes[0]));\n",
        "compression",
    ),
    Mutant(
        "flush-lets-new-batches-linger",
        "A batch that begins during a flush lingers.",
        "wanted == KP_LINGERING && atomic_load(&part->plane->sends_everything) ? INT64_MIN : due_ms",
        "due_ms",
        "flush",
    ),
    Mutant(
        "open-batch-goes-first",
        "The open batch is sent before the closed ones.",
        "batch = part->head ? part->head : part->open;",
        "batch = part->open ? part->open : part->head;",
        "append",
    ),
    Mutant(
        "detach-leaves-the-lists",
        "A partition that is disarmed stays in the lists of its lane.",
        "    list_remove(lane, part);\n    pthread_mutex_unlock(&lane->due_mu);\n    part->lane = NULL;",
        "    pthread_mutex_unlock(&lane->due_mu);\n    part->lane = NULL;",
        "take-back",
    ),
    Mutant(
        "detach-forgets-the-open-batch",
        "The open batch of a partition that is disarmed is lost.",
        "        if (first) part->tail->next = part->open;",
        "        if (first) (void)0;",
        "take-back",
    ),
    Mutant(
        "hand-over-keeps-what-flies",
        "A partition has batches in flight that Python has taken.",
        "            part->flying_first = part->flying_last = NULL;\n"
        "            part->flying_count = 0;\n            kp_part_lock",
        "            kp_part_lock",
        "take-back",
    ),
    Mutant(
        "held-for-ever",
        "A partition that was held is not put back into a list by the acknowledgement.",
        "                part->is_held = false;\n                if (part->lane) place(part, false);",
        "                part->is_held = false;",
        "append",
    ),
    Mutant(
        "two-for-a-leader-that-knows-nothing",
        "KAFKA-14359: two batches are in flight to a leader that accepts any number as the first.",
        "                || part->acknowledged_ms < 0\n"
        "                || now_ms - part->acknowledged_ms >= KP_REMEMBERED_MS);",
        ");",
        "errors",
    ),
    Mutant(
        "sent-while-it-is-compressed",
        "A batch is sent while a caller compresses it.",
        "        if (batch && batch->is_compressing) batch = NULL;",
        "",
        "compression",
    ),
    Mutant(
        "compressed-after-it-was-handed-back",
        "A caller gives the compressed form to a batch that was handed back meanwhile.",
        "        batch->is_compressing = false;\n    }\n    part->open",
        "    }\n    part->open",
        "compression-detach",
    ),
    Mutant(
        "transaction-has-not-sent",
        "The transaction is not told that a batch of it is sent.",
        "if (lane->plane->is_transactional) atomic_store(&lane->plane->has_sent, true);",
        "",
        "commit",
    ),
    Mutant(
        "numbers-go-on",
        "The numbers of the next epoch do not begin at 0.",
        "part->next_sequence = part->settled_count = 0;",
        "part->settled_count = 0;",
        "commit",
    ),
    Mutant(
        "abort-does-not-wait",
        "A transaction ends while a batch of it is left.",
        "if (w.ending && !w.incomplete) {",
        "if (w.ending) {",
        "abort",
    ),
    Mutant(
        "transaction-is-asked-too-early",
        "A caller asks whether its transaction takes records before the batch is in `incomplete`.",
        "        if (!part->lane || !takes_records(transaction)) {",
        "        if (!part->lane || (!begun && !takes_records(transaction))) {",
        "abort",
    ),
)


@attrs.frozen
class Model:
    """The compiled model."""

    program: Path

    def run(self, scenario: str, limit_s: float, most_states: int = 3_000_000) -> str:
        """What it prints: "ok ...", "not complete ...", or "FAILED: ..." with the steps.

        Raises:
            subprocess.TimeoutExpired: it has taken longer.
        """
        done = subprocess.run(
            [self.program, scenario, str(most_states)],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
        if done.returncode < 0:
            return f"FAILED: it was ended by signal {-done.returncode}\n"
        return done.stdout


def sources(mutant: Mutant | None) -> dict[str, str]:
    """The texts of model and core, with a bug or without.

    Raises:
        AssertionError: what the mutant replaces does not occur once.
    """
    texts = {source.name: source.read_text() for source in (_MODEL, CORE / "plane.c")}
    if mutant is not None:
        places = sum(text.count(mutant.old) for text in texts.values())
        assert places == 1, f"what {mutant.name} replaces occurs {places} times"
        texts = {name: text.replace(mutant.old, mutant.new) for name, text in texts.items()}
    return texts


def build(folder: Path, mutant: Mutant | None = None) -> Model:
    """Compile model and core. Raises AssertionError: the compiler refuses it, or the mutant does not fit."""
    for name, text in sources(mutant).items():
        (folder / name).write_text(text)
    program = folder / "model"
    command = ["gcc", *_OPTIONS, f"-I{folder}", f"-I{CORE}", str(folder / _MODEL.name), "-o", str(program)]
    done = subprocess.run([*command, "-lpthread"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Model(program)


def main(names: Sequence[str] = ()) -> int:
    """Run scenarios and mutants: all, or those that are named."""
    wrong = 0
    with tempfile.TemporaryDirectory() as path:
        model = build(Path(path))
        for scenario in (*SCENARIOS, *LARGER):
            if not names or scenario in names:
                said = model.run(scenario, 3600, _MOST_STATES)
                wrong += said.startswith("FAILED")
                print(said, end="", flush=True)
        for mutant in MUTANTS:
            if not names or mutant.name in names:
                said = build(Path(path), mutant).run(mutant.scenario, 600)
                wrong += not said.startswith("FAILED")
                print(f"{mutant.name}: {said.splitlines()[0]}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
