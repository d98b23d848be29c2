"""The sink on a cluster with SASL: the options of Spark's own sink are accepted, and show no secret."""

from __future__ import annotations

import pytest

from tests.support.kafka import sasl
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

USER, PASSWORD = "eve", "hunter2-hunter2"


@pytest.fixture(scope="module")
def secured():
    listeners = {"SASL": "SASL_PLAINTEXT"}
    properties = sasl.broker_properties(tuple(listeners))
    with start_or_skip("4.4.0", properties=properties, listeners=listeners) as made:
        sasl.add_scram_user(made.bootstrap_servers, USER, PASSWORD)
        yield made


def options(cluster, topic, password=PASSWORD, **others):
    return {
        "kafka.bootstrap.servers": cluster.bootstrap("SASL"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{USER}" password="{password}";'
        ),
        "topic": topic,
        **others,
    }


@pytest.mark.parametrize("others", [{}, {"delivery": "exactly-once", "writeId": "w"}])
def test_a_frame_is_written(spark, secured, others):
    topic = f"secured-{len(others)}"
    create_topic(secured.bootstrap_servers, topic, 2)
    frame = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("kproducer").mode("append").options(**options(secured, topic, **others)).save()
    values = sorted(int(each.value) for each in read_topic(secured.bootstrap_servers, topic))
    assert values == list(range(100))


def test_a_wrong_password_ends_the_write_on_the_driver_and_shows_nowhere(spark, secured, capfd):
    create_topic(secured.bootstrap_servers, "refused", 1)
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    wrong = options(secured, "refused", "no-" + PASSWORD)
    writer = frame.write.format("kproducer").mode("append").options(**wrong)
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as caught:
        writer.save()
    assert PASSWORD not in str(caught.value) + "".join(capfd.readouterr())
