"""examples/notebook.ipynb runs from its first cell to its last, against the mock cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import read_topic

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.mark.mock_cluster
def test_every_cell_runs_and_shows_what_the_topic_contains(mock_cluster: MockCluster, tmp_path: Path) -> None:
    mock_cluster.create_topic("readings", 4)
    executed = tmp_path / "executed.ipynb"
    finished = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", str(NOTEBOOK), f"--output={executed}"],
        env={
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": mock_cluster.bootstrap_servers,
            # Connection files and history do not go to the user's folders.
            "JUPYTER_RUNTIME_DIR": str(tmp_path),
            "IPYTHONDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    shown = {cell["id"]: json.dumps(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"}
    assert "RecordMetadata(topic='readings'" in shown["result"]
    assert "1000 records at offsets" in shown["many-futures"]
    assert "4 records, 4 delivered, 0 failed" in shown["send-frame"]
    assert "RecordTooLargeError (not_sent)" in shown["too-large"]
    assert "row 1: RecordTooLargeError (not_sent)" in shown["failures"]
    assert "2 of 3 rows were delivered" in shown["failures"]
    found = read_topic(mock_cluster.bootstrap_servers, "readings")
    assert len(found) == 1 + 1 + 1000 + 4 + 3 + 2
    readings = [json.loads(each.value) for each in found if each.value and each.value.startswith(b"{")]
    assert sorted(each["reading"] for each in readings) == [12.5, 12.75, 19.0, 31.5]


def test_the_notebook_has_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
