"""Java properties files: what ``Properties.load`` reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer import KafkaProducer
from kproducer._core.config.properties_file import read_properties
from kproducer._core.config.properties_syntax import parse_properties
from kproducer.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! comment\n   # comment\n\n", {}),
        ("a=b\r\nc = d\re\tf\ng:h\ni", {"a": "b", "c": "d", "e": "f", "g": "h", "i": ""}),
        ("a==b\nc = : d\n", {"a": "=b", "c": ": d"}),
        ("a=one \\\n   two\\\n\\\n three\nb=1", {"a": "one twothree", "b": "1"}),
        ("a=ends with a backslash\\\\\nb=1", {"a": "ends with a backslash\\", "b": "1"}),
        ("a=last\\", {"a": "last"}),
        ("a=b # no comment ", {"a": "b # no comment "}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ('a=\\t\\n\\r\\f\\u0041\\z\\"', {"a": '\t\n\r\fAz"'}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=1\na=2", {"a": "2"}),
        ("  a  =  b", {"a": "b"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
    ],
)
def test_what_java_reads(text, expected):
    assert parse_properties(text, "file") == expected


@pytest.mark.timeout(60)  # with work that grows with the square of the length, it takes minutes
def test_many_continued_lines_take_time_in_proportion():
    text = "a=" + ("x" * 100 + "\\\n") * 400_000
    assert len(parse_properties(text, "file")["a"]) == 40_000_000


def test_a_malformed_escape_names_the_line_and_no_value():
    with pytest.raises(ConfigError, match="file, line 2") as caught:
        parse_properties("a=1\npassword=hunter2\\u00zz", "file")
    assert "hunter2" not in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_what_is_escaped_comes_back(properties):
    def escaped(text):
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())
    assert parse_properties(text, "file") == properties


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_both_encodings(tmp_path, encoding):
    path = tmp_path / "file"
    path.write_bytes("user=J\u00fcrgen".encode(encoding))
    assert read_properties(path) == {"user": "J\u00fcrgen"}


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        KafkaProducer.from_config(tmp_path / "none")


def test_an_unknown_setting_in_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("bootstrap.servers=localhost:1\nliner.ms=5")
    with pytest.raises(ConfigError, match=r"did you mean linger\.ms"):
        KafkaProducer.from_config(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-----BEGIN PRIVATE KEY-----\nSecret/+x\nSecret==\n-----END", "line 1: expected 'name=value'"),
        ("acks=all\nSecret==", "line 2: expected 'name=value'"),
        ("sasl.password=\nsecret", "line 2: .*end that line with a backslash"),
        ('sasl.password=\n"secret";', "line 2: expected 'name=value'"),
        (
            'sasl.jaas.config=PlainLoginModule required\n  username="a" password="secret";',
            r"line 1: sasl\.jaas\.config does not end with ';'; end each of its lines",
        ),
        ('{"sasl.password": "secret"}', "line 1: expected 'name=value'"),
    ],
)
def test_a_line_without_a_setting_is_not_shown(tmp_path, text, message):
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        KafkaProducer.from_config(path)
    assert "secret" not in str(caught.value).lower()


@pytest.mark.parametrize("text", ["sasl.password=hunter2", "acks=all\nsasl.password=hunter2"])
def test_a_text_in_place_of_the_path_is_not_shown(text):
    with pytest.raises(ConfigError, match="expected the path of a properties file") as caught:
        KafkaProducer.from_config(text)
    assert "hunter2" not in str(caught.value)


def test_a_text_that_cannot_be_a_path() -> None:
    with pytest.raises(ConfigError, match="expected the path of a properties file"):
        read_properties("a\0b")
