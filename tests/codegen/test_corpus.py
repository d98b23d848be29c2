"""Upstream's complete set of specs, from the kafka-python wheel, goes through the compiler."""

from __future__ import annotations

import re
import warnings

from codegen.compiler import compile_folder
from codegen.model import MessageType
from codegen.naming import module_name
from tests.codegen.compiled import CORPUS, Case, corpus_dir, package_of, specs_of
from tests.codegen.message_strategies import SPEC_DIR, SPECS

#: kafka-python 3.0.12 has this many; newer versions have more.
_AT_LEAST = 108


def test_every_spec_compiles_and_imports_without_a_warning():
    specs = specs_of(corpus_dir())
    assert len(specs) == len(list(corpus_dir().glob("*.json"))) >= _AT_LEAST
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        package = package_of(corpus_dir(), "corpus_messages")
        for spec in specs:
            assert spec.valid_versions.highest == getattr(package, spec.name).MAX_VERSION
    assert [str(warning.message) for warning in caught] == []


def test_requests_and_responses_are_listed_in_pairs():
    package = package_of(corpus_dir(), "corpus_messages")
    assert package.REQUESTS.keys() == package.RESPONSES.keys() == package.API_NAMES.keys()
    assert package.REQUESTS[0] is package.ProduceRequest
    assert package.API_NAMES[1] == "Fetch"


def test_the_corpus_has_many_versions_of_every_kind_of_message_except_metadata_records():
    kinds = {case.spec.type for case in CORPUS}
    assert kinds == {MessageType.REQUEST, MessageType.RESPONSE, MessageType.HEADER, MessageType.DATA}
    assert len(CORPUS) >= 490


def test_our_modules_equal_those_compiled_from_upstreams_specs():
    """Same facts, same code except for texts and digests: so the corpus tests also cover our modules."""

    ours, theirs = compile_folder(SPEC_DIR), compile_folder(corpus_dir())
    upstream = {spec.name: spec for spec in specs_of(corpus_dir())}
    # For versions that the wheel does not have yet, the functions differ.
    same = [
        spec
        for spec in SPECS
        if spec.name in upstream and spec.valid_versions == upstream[spec.name].valid_versions
    ]
    assert len(same) >= 8
    for spec in same:
        name = f"{module_name(spec.name)}.py"
        assert _functions(ours[name]) == _functions(theirs[name]), name


def _functions(text):
    """The module from its first function on, without the first lines, which contain texts."""
    return text[re.search(r"^def _", text, re.M).start() :]


def test_a_case_names_message_and_version():
    case = CORPUS[0]
    assert isinstance(case, Case)
    assert str(case) == f"{case.spec.name}-v{case.version}"
