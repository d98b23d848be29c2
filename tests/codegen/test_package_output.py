"""The generated package as a whole: deterministic, self-contained, importable under any name."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.__main__ import main
from codegen.compiler import compile_folder
from tests.codegen.message_strategies import SPEC_DIR

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "generated" / "kproducer_messages"


def test_the_committed_output_matches_the_specs():
    assert main(["--check", str(SPEC_DIR), str(GENERATED)]) == 0


def test_output_is_the_same_byte_for_byte_in_another_process_with_another_hash_seed():
    code = "import codegen.compiler as c, pathlib, hashlib; files = c.compile_folder(pathlib.Path('specs'));"
    code += "print(hashlib.sha256(repr(files).encode()).hexdigest())"
    digests = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        run = subprocess.run(command, cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        digests.add(run.stdout)
    assert len(digests) == 1
    assert digests == {hashlib.sha256(repr(compile_folder(SPEC_DIR)).encode()).hexdigest().encode() + b"\n"}


def test_headers_name_spec_and_digest_and_no_date_or_absolute_path():
    for name, text in compile_folder(SPEC_DIR).items():
        if name == "py.typed":
            continue
        first, second, *_ = text.splitlines()
        assert first.startswith("# DO NOT EDIT: generated from ")
        assert re.fullmatch(r"# sha256 of the source: [0-9a-f]{64}", second)
        assert str(ROOT) not in text
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text)
    text = compile_folder(SPEC_DIR)["produce_request.py"]
    assert "specs/ProduceRequest.json" in text
    assert hashlib.sha256((SPEC_DIR / "ProduceRequest.json").read_bytes()).hexdigest() in text


def test_a_package_of_any_name_works_beside_ours(tmp_path, monkeypatch):
    out = tmp_path / "other_name"
    assert main([str(SPEC_DIR), str(out)]) == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    # There is no extension module for this package.
    monkeypatch.setenv("KPRODUCER_KERNEL", "auto")
    other = importlib.import_module("other_name")
    assert other.ProduceRequest.__module__ == "other_name.produce_request"
    assert other.REQUESTS[0] is other.ProduceRequest
    with pytest.raises(other.DecodeError):
        other.MetadataResponse.decode(b"", 0)


def test_check_names_every_stale_file_and_writes_nothing(tmp_path, capsys):
    out = tmp_path / "messages"
    shutil.copytree(GENERATED, out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "produce_request.py").write_text("# changed by hand\n")
    (out / "produce_response.py").unlink()
    (out / "old_request.py").write_text("# DO NOT EDIT: generated from specs/OldRequest.json\n")
    assert main(["--check", str(SPEC_DIR), str(out)]) == 1
    told = capsys.readouterr().err
    assert "produce_request.py: differs" in told
    assert "produce_response.py: missing" in told
    assert "old_request.py: no spec for this module" in told
    assert not (out / "produce_response.py").exists()


def test_generating_again_repairs_removes_orphans_and_leaves_foreign_files(tmp_path):
    out = tmp_path / "messages"
    assert main([str(SPEC_DIR), str(out)]) == 0
    (out / "old_request.py").write_text("# DO NOT EDIT: generated from specs/OldRequest.json\n")
    (out / "mine.py").write_text("x = 1\n")
    (out / "produce_request.py").write_text("")
    assert main([str(SPEC_DIR), str(out)]) == 0
    assert main(["--check", str(SPEC_DIR), str(out)]) == 0
    assert not (out / "old_request.py").exists()
    assert (out / "mine.py").exists()


def test_a_wrong_spec_writes_nothing_and_exits_with_1(tmp_path, capsys):
    specs = tmp_path / "specs"
    shutil.copytree(SPEC_DIR, specs)
    path = specs / "ProduceRequest.json"
    path.write_text(path.read_text().replace('"type": "int16", "versions"', '"type": "int17", "versions"'))
    assert main([str(specs), str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert re.search(
        r"ProduceRequest.json:\d+: ProduceRequest.Acks: unknown type 'int17'; did you mean", told
    )
    assert not (tmp_path / "out").exists()


def test_two_specs_of_one_api_key_clash(tmp_path, capsys):
    specs = tmp_path / "specs"
    shutil.copytree(SPEC_DIR, specs)
    text = (specs / "MetadataRequest.json").read_text().replace('"apiKey": 3', '"apiKey": 0')
    (specs / "MetadataRequest.json").write_text(text)
    assert main([str(specs), str(tmp_path / "out")]) == 1
    assert "API key 0 already has a request" in capsys.readouterr().err


def test_an_empty_folder_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path), str(tmp_path / "out")]) == 1
    assert "has no *.json specs" in capsys.readouterr().err


def test_generated_code_imports_the_standard_library_only():
    for path in GENERATED.glob("*.py"):
        for match in re.finditer(r"^(?:from|import) ([\w.]+)", path.read_text(), re.M):
            package = match[1].split(".")[0]
            assert not package or package in sys.stdlib_module_names, (path.name, match[0])


def test_messages_are_imported_on_first_use(tmp_path):
    out = tmp_path / "lazy_name"
    assert main([str(SPEC_DIR), str(out)]) == 0
    code = """
import sys, lazy_name
def loaded():
    return {name for name in sys.modules if name.startswith("lazy_name.") and name.split(".")[1][0] != "_"}
assert loaded() == set() and 0 in lazy_name.REQUESTS and 999 not in lazy_name.REQUESTS, loaded()
assert "ProduceRequest" in dir(lazy_name) and loaded() == set()
lazy_name.ProduceRequest
assert loaded() == {"lazy_name.produce_request"}, loaded()
assert lazy_name.RESPONSES[3].__name__ == "MetadataResponse"
assert loaded() == {"lazy_name.produce_request", "lazy_name.metadata_response"}, loaded()
assert "0: ProduceRequest" in repr(lazy_name.REQUESTS) and len(lazy_name.REQUESTS) == len(lazy_name.API_NAMES)
for mistake in ("lazy_name.NoSuchMessage", "lazy_name.REQUESTS[999]"):
    try:
        eval(mistake)
    except (AttributeError, KeyError):
        continue
    raise AssertionError(mistake)
namespace = {}
exec("from lazy_name import *", namespace)
assert set(lazy_name.__all__) <= set(namespace)
"""
    # There is no extension module for this package.
    environment = os.environ | {"KPRODUCER_KERNEL": "auto"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
