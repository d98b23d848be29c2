"""The parser of JAAS configurations: what Java accepts, exact errors, and no value in any of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.security.jaas import parse_jaas_config
from kproducer.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2"


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas_config("sasl.jaas.config", text).options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"kafkashaded.{PLAIN} REQUIRED username='a' password='b' ;", {"username": "a", "password": "b"}),
        (
            f"{PLAIN}\n  required\n\tusername = alice-1\n password=p.w ;\n",
            {"username": "alice-1", "password": "p.w"},
        ),
        (f'{PLAIN} required password="a\\"b\\\\c\\n\\101;=\'";', {"password": "a\"b\\c\nA;='"}),
        (f'{PLAIN} optional /* a comment; */ username="//no comment" // ;\n;', {"username": "//no comment"}),
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required extension_pool="p" empty="";', {"extension_pool": "p", "empty": ""}),
    ],
)
def test_what_java_accepts(text, expected):
    module = parse_jaas_config("sasl.jaas.config", text)
    assert module.class_name == PLAIN
    assert module.options == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no login module"),
        ("  // nothing\n", "no login module"),
        (f'{PLAIN} required password="{SECRET}"', "';' at the end is missing"),
        (f'{PLAIN} required password="{SECRET};', "a quote in line 1 is not closed"),
        (f'{PLAIN} required\n password="{SECRET}\n";', "a quote in line 2 is not closed"),
        (f'"{PLAIN} required password="{SECRET}";"', "remove the quotes around the whole text"),
        (f"'{PLAIN} required password=\"{SECRET}\";'", "remove the quotes around the whole text"),
        (f'KafkaClient {{ {PLAIN} required password="{SECRET}"; }};', "remove its name and the braces"),
        (f'{PLAIN} password="{SECRET}";', "control flag"),
        (f"{PLAIN};", "control flag"),
        ("= required;", "begins with '='"),
        (f'{PLAIN} required password "{SECRET}";', "no '=' after its name"),
        (f"{PLAIN} required password=my {SECRET};", "no '=' after its name"),
        (f"{PLAIN} required password=;", "option 'password' in line 1 has no value"),
        (f"{PLAIN} required password=\n=x;", "option 'password' in line 1 has no value"),
        (f"{PLAIN} required ={SECRET};", "no option before the '=' in line 1"),
        (f"{PLAIN} required a={SECRET} a={SECRET};", "option 'a' in line 1 is there twice"),
        (f"{PLAIN} required a=b;{SECRET}", "got text after the ';' in line 1"),
        (f"{PLAIN} required a=b; {PLAIN} required c={SECRET};", "got another login module"),
    ],
)
def test_what_is_wrong_is_said_without_values(text, complaint):
    with pytest.raises(ConfigError) as caught:
        options(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("sasl.jaas.config: ")
    assert SECRET not in str(caught.value)


def test_the_repr_shows_no_option():
    module = parse_jaas_config("sasl.jaas.config", f"{PLAIN} required password={SECRET};")
    assert SECRET not in repr(module)


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.text(), max_size=5))
def test_quoted_values_come_back(expected):
    pairs = " ".join(
        '{}="{}"'.format(key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for key, value in expected.items()
    )
    assert options(f"{PLAIN} required {pairs};") == expected


@given(
    st.lists(
        st.sampled_from([PLAIN, "required", "a", "=", '"x"', "'", '"', ";", "//", "/*", "*/", "\n", "\\"])
    )
)
def test_any_text_is_read_or_refused(pieces):
    with contextlib.suppress(ConfigError):
        options(" ".join(pieces))


def test_a_backslash_before_a_digit_of_another_script() -> None:
    text = 'org.apache.Plain required password="a\\\u00b2\\\u0663";'
    assert parse_jaas_config("sasl_jaas_config", text).options == {"password": "a\u00b2\u0663"}


@pytest.mark.timeout(60)
def test_the_time_depends_on_the_length_only():
    many = "".join(f"option{number}=value{number}\n" for number in range(100_000))
    assert len(options(f"{PLAIN} required\n{many};")) == 100_000
    with pytest.raises(ConfigError, match="no login module"):
        options("/* " * 200_000)


def test_a_comment_that_is_not_closed_reaches_to_the_end():
    with pytest.raises(ConfigError, match="';' at the end is missing"):
        options(f"{PLAIN} required /* password={SECRET};")
