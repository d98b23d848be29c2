"""The version of a request is the newest that both sides know; without one the error says who knows what."""

from __future__ import annotations

import pytest

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.api_versions import NodeApiVersions
from kproducer.errors import RemoteProtocolError
from kproducer.errors.broker_errors import UnsupportedVersionError
from tests.support.units.client_harness import api_versions_response


def table(**ranges: tuple[int, int]) -> NodeApiVersions:
    return NodeApiVersions("b:9092 (id 1)", {int(ApiKey[name.upper()]): r for name, r in ranges.items()})


@pytest.mark.parametrize(
    ("broker", "ours", "expected"),
    [((0, 8), (3, 13), 8), ((0, 99), (3, 13), 13), ((3, 3), (3, 13), 3), ((5, 13), (3, 5), 5)],
)
def test_the_newest_common_version(broker: tuple[int, int], ours: tuple[int, int], expected: int) -> None:
    assert table(produce=broker).latest_usable_version(ApiKey.PRODUCE, *ours) == expected


@pytest.mark.parametrize(
    ("broker", "words"),
    [((0, 2), "too old"), ((14, 20), "too new"), ((-1, -1), "too old")],
)
def test_without_a_common_version_the_error_names_both_ranges_and_the_broker(
    broker: tuple[int, int], words: str
) -> None:
    with pytest.raises(UnsupportedVersionError, match=words) as caught:
        table(produce=broker).latest_usable_version(ApiKey.PRODUCE, 3, 13)
    text = str(caught.value)
    assert "b:9092 (id 1)" in text
    assert "Produce" in text
    assert "3 to 13" in text
    assert str(broker[1]) in text


def test_an_api_that_the_broker_lacks_is_the_same_error() -> None:
    with pytest.raises(UnsupportedVersionError, match="InitProducerId: broker b:9092"):
        table(produce=(0, 9)).latest_usable_version(ApiKey.INIT_PRODUCER_ID, 0, 4)


def test_a_table_is_read_from_an_answer_with_its_features() -> None:
    response = api_versions_response({0: (0, 9), 999: (0, 1)}, finalized_features_epoch=7)
    read = NodeApiVersions.from_response("b", response)
    assert read.ranges == {0: (0, 9), 999: (0, 1)}
    assert read.finalized_features_epoch == 7


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.METADATA])
def test_a_range_upside_down_of_an_api_we_speak_is_a_protocol_error(api_key: ApiKey) -> None:
    with pytest.raises(RemoteProtocolError, match="versions 9 to 5"):
        NodeApiVersions.from_response("b", api_versions_response({1: (0, 9), int(api_key): (9, 5)}))


def test_a_range_upside_down_of_any_other_api_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    wrong = dict.fromkeys(range(999, 2000), (1, 0))
    read = NodeApiVersions.from_response("b", api_versions_response({0: (0, 9), **wrong}))
    assert read.ranges == {0: (0, 9)}
    (record,) = caplog.records
    assert "API 999: versions 1 to 0" in record.getMessage()
    assert "1000 more" in record.getMessage()
