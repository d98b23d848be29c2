"""The metadata of a distribution: who, where, under which license, and a description whose links work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from build_tools.build_commands import absolute_links
from build_tools.native_build import ROOT
from tests.packaging.wheel_check import DEMO_NEEDS

SOURCE = "https://example.com/us/sample"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """The metadata of this checkout, built as for a wheel."""
    folder = tmp_path_factory.mktemp("metadata")
    code = "import setuptools; setuptools.setup()"
    subprocess.run(
        [sys.executable, "-c", code, "-q", "egg_info", "--egg-base", folder, "dist_info", "-o", folder],
        cwd=ROOT,
        env={**os.environ, "KPRODUCER_NATIVE": "0"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (path,) = folder.glob("*.dist-info/METADATA")
    return message_from_bytes(path.read_bytes())


def test_metadata_names_authors_license_and_addresses(metadata: Message) -> None:
    assert metadata["Author"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert "kafka" in metadata["Keywords"]
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())


def test_links_of_the_description_are_absolute_and_point_to_files_of_the_release(metadata: Message) -> None:
    description = metadata.get_payload()
    assert isinstance(description, str)
    assert re.findall(r"\]\((?!https?://)[^)]*\)", description) == []
    release = f"/blob/v{metadata['Version']}/"
    paths = re.findall(rf"{release}([^)#]+)", description)
    assert "docs/security.md" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](docs/a.md)", f"[a]({SOURCE}/blob/v1/docs/a.md)"),
        ("[a](a.md#part), [b](b.md)", f"[a]({SOURCE}/blob/v1/a.md#part), [b]({SOURCE}/blob/v1/b.md)"),
        ("![plot](docs/plot.svg)", f"![plot]({SOURCE}/raw/v1/docs/plot.svg)"),
        ("[part](#part)", f"[part]({SOURCE}/blob/v1/README.md#part)"),
        ("[a](https://example.org/a)", "[a](https://example.org/a)"),
        ("[us](mailto:us@example.org)", "[us](mailto:us@example.org)"),
        ("`records[0](argument, other)`", "`records[0](argument, other)`"),
    ],
)
def test_relative_links_become_absolute(markdown: str, expected: str) -> None:
    assert absolute_links(markdown, SOURCE, "v1") == expected


def test_the_readme_itself_keeps_relative_links() -> None:
    assert "](docs/install.md)" in Path(ROOT, "README.md").read_text(encoding="utf-8")


def test_the_citation_names_the_version_of_the_package(metadata: Message) -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {metadata['Version']}\n" in citation


def test_the_changelog_dates_the_version_of_the_package(metadata: Message) -> None:
    version = metadata["Version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    dates = re.findall(rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE)
    assert len(dates) == 1
    assert f"\n[{version}]: https://" in changelog
    assert f"\ndate-released: {dates[0]}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_table_of_extras_is_complete(metadata: Message) -> None:
    document = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    section = document.partition("## Extras")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(metadata.get_all("Provides-Extra", []))


def test_the_demo_has_an_extra_with_what_it_needs(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    found = {
        line for line in required for extra in ("arrow", "avro", "demo") if f'extra == "{extra}"' in line
    }
    names = {re.split(r"[>=<; \[]", line)[0] for line in found}
    assert set(DEMO_NEEDS) <= names


#: docs/install.md says so before the first release. Without it, the test below lists the commands to change.
NOT_PUBLISHED = "it is not on PyPI yet"
FROM_A_CLONE = r"install (.* )?-e '?\."
BY_NAME = r"install (.* )?['\"]?kproducer\b(?!-)"


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    """What users read in the repository, and the package's own texts, such as errors, by path."""
    command = ["git", "ls-files", "*.md", "*.ipynb", "examples/*.py", "kproducer/*.py"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode != 0:
        pytest.skip("not a clone")
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in tracked.stdout.splitlines()}


def commands_that_match(pattern: str, documents: dict[str, str]) -> list[tuple[str, str]]:
    """Except in docs/install.md, which compares both ways, and where the package is installed already."""
    return [
        (path, command)
        for path, text in documents.items()
        for command in re.findall(r"pip install [^`\n#]*", text)
        if path != "docs/install.md" and not path.startswith("kproducer/") and re.search(pattern, command)
    ]


def test_commands_in_documents_install_from_where_the_package_is(documents: dict[str, str]) -> None:
    is_published = NOT_PUBLISHED not in documents["docs/install.md"]
    assert commands_that_match(FROM_A_CLONE if is_published else BY_NAME, documents) == []
    assert commands_that_match(BY_NAME if is_published else FROM_A_CLONE, documents)


def test_commands_name_extras_that_exist(documents: dict[str, str], metadata: Message) -> None:
    named = re.findall(r"install [^`\n#]*'(?:\.|kproducer)\[([\w,]+)\]'", "\n".join(documents.values()))
    assert {"arrow", "cli,spark", "pkcs12"} <= set(named)
    assert set(",".join(named).split(",")) <= set(metadata.get_all("Provides-Extra", []))
