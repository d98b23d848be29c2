"""The compiled EventDescriptor, which ends the wait of a thread that polls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

try:
    # Not "from the module": the import rules see compiled modules only as members of their package.
    from kproducer._core.runtime import _native_eventfd
except ImportError:
    _native_eventfd = None  # type: ignore[assignment]

if TYPE_CHECKING:
    EventDescriptor: TypeAlias = _native_eventfd.EventDescriptor


def new_event_descriptor() -> EventDescriptor:
    """Raises ``OSError``: it was not compiled, the system has no ``eventfd``, or no descriptor is left."""
    if _native_eventfd is None:
        raise OSError("EventDescriptor was not compiled")
    return _native_eventfd.EventDescriptor()
