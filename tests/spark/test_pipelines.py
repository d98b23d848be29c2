"""examples/spark_pipeline: ``spark-pipelines run``, exactly once, also if it is killed or fully refreshed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproducer.spark import FullRefreshError
from kproducer.spark.exactly_once.full_refresh import refuse_full_refresh
from tests.spark.conftest import SMALL_SPARK, require_java
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.topics import create_topic
from tests.support.spark.divided_commit import COMMIT_REST
from tests.support.spark.driver import SparkDriver, spark_home
from tests.support.spark.exactly_once_source import FOLDER
from tests.support.spark.run_pipelines import PLUGIN_PATH, connect_port
from tests.support.spark.step_trap import StepTrap
from tests.support.waiting import wait_until

pytest.importorskip("pyspark.pipelines", reason="this version of PySpark has no declarative pipelines")
yaml = pytest.importorskip("yaml")

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline"
TOPIC = "pipeline"
RUN_SECONDS = 200
#: A pipeline cannot set these itself.
SETTINGS = [word for pair in SMALL_SPARK.items() for word in ("--conf", "=".join(pair))]
#: Each file becomes a task.
FILE_SIZE = str(4 * 1024 * 1024)


class Pipeline:
    """A copy of the example in a folder of its own."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.folder = folder
        self.trap = StepTrap(folder)
        self.log = folder / "log.txt"
        self._kafka = kafka
        self._home = spark_home(folder)
        self._runs = 0
        self._files = 0
        self.source = folder / "orders"
        self.source.mkdir()
        shutil.copy(EXAMPLE / "orders.py", folder)
        spec = yaml.safe_load((EXAMPLE / "spark-pipeline.yml").read_text())
        spec["storage"] = (folder / "storage").as_uri()
        spec["configuration"] |= {
            "orders.source": str(self.source),
            "orders.bootstrap": kafka.bootstrap_servers,
            "orders.topic": TOPIC,
            "spark.sql.files.openCostInBytes": FILE_SIZE,
            "spark.sql.files.maxPartitionBytes": FILE_SIZE,
            # Otherwise a refused flow is started twice more, after a pause.
            "spark.sql.pipelines.maxFlowRetryAttempts": "0",
        }
        self._spec = folder / "spark-pipeline.yml"
        self._spec.write_text(yaml.safe_dump(spec))

    @property
    def checkpoints(self) -> Path:
        """Of the flow: a folder for each full refresh, and the first."""
        return self.folder / "storage" / "_checkpoints" / "kafka_orders" / "orders_to_kafka"

    def add_file(self, count: int) -> None:
        """More orders, in a file, which must not be seen before it is complete."""
        self._files += 1
        orders = [{"customer": f"c{n}", "item": f"i{self._files}", "quantity": n} for n in range(count)]
        part = self.source / ".part"
        part.write_text("\n".join(map(json.dumps, orders)))
        part.rename(self.source / f"{self._files}.json")

    def orders(self) -> Counter[bytes | None]:
        """The values that the files make."""
        lines = itertools.chain.from_iterable(
            each.read_bytes().split(b"\n") for each in self.source.glob("*.json")
        )
        return Counter(line.replace(b" ", b"") for line in lines)

    def visible(self) -> Counter[bytes | None]:
        return Counter(itertools.chain.from_iterable(read_committed(self._kafka.bootstrap_servers, TOPIC, 2)))

    def start(self, *arguments: str) -> SparkDriver:
        self._runs += 1
        return SparkDriver(
            f"{self.folder.name}-{self._runs}-",
            "tests.support.spark.run_pipelines",
            ["run", "--spec", str(self._spec), *SETTINGS, *arguments],
            self._home,
            self.log,
            RUN_SECONDS,
            {"PYTHONPATH": PLUGIN_PATH, FOLDER: str(self.folder)},
        )

    def run(self, *arguments: str) -> int:
        driver = self.start(*arguments)
        try:
            return driver.wait(RUN_SECONDS)
        finally:
            driver.kill()


@pytest.fixture
def pipeline(kafka: KafkaCluster, tmp_path: Path) -> Iterator[Pipeline]:
    require_java()
    create_topic(kafka.bootstrap_servers, TOPIC, 2)
    with connect_port():
        yield Pipeline(kafka, tmp_path)


@pytest.mark.kafka
@pytest.mark.timeout(3 * RUN_SECONDS + 60)
@pytest.mark.skipif(
    os.environ.get("KPRODUCER_KERNEL") == "pure", reason="the kernel has no part in what is killed here"
)
def test_each_order_is_there_once_after_a_kill_and_a_full_refresh(pipeline: Pipeline) -> None:
    for count in (20, 10, 5):
        pipeline.add_file(count)
    # With the first task committed, and the others not.
    pipeline.trap.set(COMMIT_REST, dies=False)
    driver = pipeline.start()
    try:
        wait_until(lambda: pipeline.trap.caught_pid() is not None or driver.exit_code() is not None, 2)
    finally:
        driver.kill()
    assert pipeline.trap.caught_pid() is not None, pipeline.log.read_text()[-4000:]
    assert not list(pipeline.checkpoints.glob("*/commits/[0-9]*"))
    pipeline.trap.release()

    assert pipeline.run("--full-refresh-all") != 0
    told = pipeline.log.read_text()
    assert f"FullRefreshError: the checkpoint '{(pipeline.checkpoints / '1').as_uri()}'"[:60] in told
    assert "acceptedFullRefreshes=1" in told

    # What the error says: delete the folder, and run again.
    shutil.rmtree(pipeline.checkpoints / "1")
    assert pipeline.run() == 0, pipeline.log.read_text()[-4000:]
    assert pipeline.visible() == pipeline.orders()


@pytest.mark.parametrize(
    "checkpoint",
    [
        "file:/data/_checkpoints/kafka_orders/orders_to_kafka/2",
        "s3a://bucket/storage/_checkpoints/spark_catalog/default/sink/flow/2/",
    ],
)
def test_a_full_refresh_is_accepted_one_by_one(checkpoint: str) -> None:
    for accepted in (0, 1):
        with pytest.raises(FullRefreshError, match="acceptedFullRefreshes=2") as caught:
            refuse_full_refresh(checkpoint, accepted)
        assert f"'{checkpoint}'" in str(caught.value)
    refuse_full_refresh(checkpoint, 2)


@pytest.mark.parametrize(
    "checkpoint",
    [
        "",
        "/tmp/numbers-checkpoint",
        "/data/checkpoints/orders/stream/1",
        "file:/data/_checkpoints/kafka_orders/orders_to_kafka/0",
        "/data/_checkpoints/orders/1",
    ],
)
def test_other_checkpoints_are_not_those_of_a_full_refresh(checkpoint: str) -> None:
    refuse_full_refresh(checkpoint, 0)
