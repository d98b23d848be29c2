"""CRC-32C (Castagnoli), the checksum of record batches.

Computed by the ``crc32c`` wheel (processor instructions, tens of GB/s), or by ``crcmod`` on platforms
without such a wheel: its C extension reaches 0.5 GB/s; without the extension it is too slow to use, and the
log says so once. Both take bytes, bytearray and memoryview without copying.
Source: RFC 3720 appendix B.4; Kafka's ``Crc32C``.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable
from functools import partial
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Update = Callable[[Buffer, int], int]

_logger = logging.getLogger("kproducer.kernel")


def _accelerated() -> Update:
    # Mode 0 keeps the interpreter lock: a batch takes microseconds, while taking the lock back from a busy
    # application thread can take five milliseconds.
    update: Update = partial(_crc32c_module().crc32c, gil_release_mode=0)
    update(b"", 0)
    return update


def _crc32c_module() -> Any:
    """The compiled module alone, if the package has it where releases have had it.

    The package's ``__init__`` imports a command line and metadata, which takes 20 ms.
    """
    package = PathFinder.find_spec("crc32c")
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations if package else ())
    if spec is None or spec.loader is None:
        return importlib.import_module("crc32c")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _table_driven() -> Update:
    predefined = importlib.import_module("crcmod.predefined")
    try:
        importlib.import_module("crcmod._crcfunext")
    except ImportError:
        _logger.warning(
            "CRC-32C is computed by crcmod without its C extension, hundreds of times slower than with it: "
            "install the crc32c package, or reinstall crcmod where a C compiler is present"
        )
    update: Update = predefined.mkPredefinedCrcFun("crc-32c")
    return update


def load_update(providers: tuple[Callable[[], Update], ...] = (_accelerated, _table_driven)) -> Update:
    """Return the first checksum function that can be loaded.

    Raises:
        ImportError: none can be loaded.
    """
    failures: list[str] = []
    for provider in providers:
        try:
            return provider()
        except (ImportError, AttributeError, TypeError) as error:  # of a stub, or an old release
            failures.append(str(error))
    raise ImportError(f"no CRC-32C implementation: install crc32c or crcmod ({'; '.join(failures)})")


_update = load_update()


def crc32c(data: Buffer) -> int:
    """Return the checksum of ``data``, an unsigned 32-bit int."""
    return _update(data, 0)
