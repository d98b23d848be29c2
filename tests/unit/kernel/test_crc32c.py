"""CRC-32C: published vectors, every implementation equal, and the fallback where no wheel exists."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.kernel.crc32c import crc32c, load_update

crc_module = importlib.import_module("kproducer._core.kernel.crc32c")

VECTORS = [
    (b"", 0x00000000),
    (b"a", 0xC1D04330),
    (b"123456789", 0xE3069283),
    (b"The quick brown fox jumps over the lazy dog", 0x22620404),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


def no_wheel() -> Callable[..., int]:
    raise ImportError("no such wheel here")


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_published_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected
    assert crc32c(bytearray(data)) == expected
    assert crc32c(memoryview(data)) == expected


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_the_wheel_and_crcmod_are_equal(data: bytes, start: int) -> None:
    accelerated = crc_module._accelerated()
    table_driven = crc_module._table_driven()
    assert accelerated(data, start) == table_driven(data, start)


def test_crcmod_takes_over_where_the_wheel_is_missing() -> None:
    update = load_update((no_wheel, crc_module._table_driven))
    assert update(memoryview(bytearray(b"123456789")), 0) == 0xE3069283


def test_a_stub_in_place_of_the_wheel_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("crc32c")
    del stub.__spec__
    monkeypatch.setitem(sys.modules, "crc32c", stub)
    assert load_update()(b"123456789", 0) == 0xE3069283
    monkeypatch.setattr(crc_module, "PathFinder", ModuleType("nothing"))
    crc_module.PathFinder.find_spec = lambda name, path=None: None
    assert load_update()(b"123456789", 0) == 0xE3069283


def test_crcmod_without_its_extension_is_said_on_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real_import = importlib.import_module

    def without_extension(name: str) -> ModuleType:
        if name == "crcmod._crcfunext":
            raise ImportError(name)
        return real_import(name)

    monkeypatch.setattr(crc_module.importlib, "import_module", without_extension)
    with caplog.at_level(logging.WARNING):
        load_update((no_wheel, crc_module._table_driven))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "without its C extension" in caplog.text


def test_no_implementation_at_all_names_both_packages() -> None:
    with pytest.raises(ImportError, match="install crc32c or crcmod") as caught:
        load_update((no_wheel,))
    assert "no such wheel here" in str(caught.value)
