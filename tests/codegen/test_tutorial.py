"""docs/codegen.md: its specs compile, its Python code is valid, and its statements about the message hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.__main__ import main
from tests.codegen.compiled import package_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "codegen.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    for text in blocks("json"):
        name = re.search(r'"name": "(\w+)"', text)[1]
        (folder / f"{name}.json").write_text(text)
    return folder


def test_the_specs_of_the_tutorial_compile_and_their_messages_round_trip(tutorial):
    package = package_of(tutorial, "tutorial_messages")
    sent = {"controller_id": 2, "brokers": [{"broker_id": 2, "host": "h", "port": 9092}]}
    data = package.DescribeClusterResponse.from_dict(sent).encode(0)
    response, _ = package.DescribeClusterResponse.decode(data, 0)
    assert response.brokers.find(response.controller_id).host == "h"
    namespace = {"DescribeClusterRequest": package.DescribeClusterRequest}
    exec(blocks("python")[1], namespace)


def test_the_snippets_are_valid_python():
    for number, text in enumerate(blocks("python")):
        compile(text, f"docs/codegen.md, block {number}", "exec")


def test_the_error_that_the_tutorial_shows_is_the_real_one(tutorial, tmp_path, capsys):
    text = (tutorial / "DescribeClusterRequest.json").read_text()
    wrong = text.replace("IncludeClusterAuthorizedOperations", "Include").replace('"bool"', '"boool"')
    (tmp_path / "DescribeClusterRequest.json").write_text(wrong)
    assert main([str(tmp_path), str(tmp_path / "out")]) == 1
    (shown,) = re.findall(r"`specs/(DescribeClusterRequest\.json:\d+: .*?)`$", TEXT, re.M)
    assert shown in capsys.readouterr().err
