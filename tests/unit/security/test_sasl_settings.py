"""From settings to a mechanism: what belongs together, and contradictions; secrets are nowhere shown."""

from __future__ import annotations

import pickle
import time
import traceback

import pytest

from kproducer import KafkaProducer
from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.security.sasl_mechanisms import OAuthBearerMechanism, PlainMechanism
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer._core.security.scram import ScramMechanism
from kproducer.errors import ConfigError

SECRET = "hunter2"
PACKAGE = "org.apache.kafka.common.security"
PLAIN_JAAS = f'{PACKAGE}.plain.PlainLoginModule required username="alice" password="{SECRET}";'
SCRAM_JAAS = f'{PACKAGE}.scram.ScramLoginModule required username="alice" password="{SECRET}"'
OAUTH_JAAS = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"


def provider():
    return SECRET, time.time() + 60


def config(mechanism: str | None, **others) -> ProducerConfig:
    chosen = {"bootstrap_servers": "localhost:1", "security_protocol": "SASL_PLAINTEXT", **others}
    return ProducerConfig(sasl_mechanism=mechanism, **chosen)


def credentials(**others) -> dict[str, object]:
    return {"sasl_plain_username": "alice", "sasl_plain_password": SECRET, **others}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config("PLAIN", **credentials()), PlainMechanism("alice", SECRET)),
        (config("plain", sasl_jaas_config=PLAIN_JAAS), PlainMechanism("alice", SECRET)),
        (config("PLAIN", sasl_jaas_config="kafkashaded." + PLAIN_JAAS), PlainMechanism("alice", SECRET)),
        (config("SCRAM-SHA-256", **credentials()), ScramMechanism("SCRAM-SHA-256", "alice", SECRET)),
        (
            config("SCRAM-SHA-512", sasl_jaas_config=f"{SCRAM_JAAS} tokenauth=true;"),
            ScramMechanism("SCRAM-SHA-512", "alice", SECRET, True),
        ),
        (
            config("SCRAM-SHA-512", sasl_jaas_config=f"{SCRAM_JAAS} serviceName=kafka;"),
            ScramMechanism("SCRAM-SHA-512", "alice", SECRET),
        ),
    ],
)
def test_what_belongs_together(given, expected):
    assert sasl_mechanism_of(given) == expected


def test_extensions_of_a_login_module_go_with_every_token():
    jaas = f'{OAUTH_JAAS} extension_logicalCluster="lkc-1" extension_identityPoolId="p";'
    mechanism = sasl_mechanism_of(
        config("OAUTHBEARER", sasl_oauth_token_provider=provider, sasl_jaas_config=jaas)
    )
    assert isinstance(mechanism, OAuthBearerMechanism)
    assert mechanism.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "p"}


def test_the_names_of_other_clients():
    given = {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": SECRET,
    }
    mechanism = sasl_mechanism_of(ProducerConfig.from_dotted(given))
    assert mechanism == ScramMechanism("SCRAM-SHA-256", "alice", SECRET)


@pytest.mark.parametrize(
    ("mechanism", "others", "complaint"),
    [
        (None, {}, "sasl_mechanism is missing"),
        ("PLAIN", {}, "sasl_plain_username is missing"),
        ("PLAIN", {"sasl_plain_username": "alice"}, "sasl_plain_password is missing"),
        ("PLAIN", {"sasl_plain_password": SECRET}, "sasl_plain_username is missing"),
        ("PLAIN", credentials(sasl_jaas_config=PLAIN_JAAS), "sasl_plain_username cannot be used with"),
        (
            "PLAIN",
            credentials(sasl_oauth_token_provider=provider),
            "sasl_oauth_token_provider cannot be",
        ),
        ("PLAIN", credentials(sasl_plain_password=SECRET + "\0"), "without NUL"),
        ("PLAIN", {"sasl_jaas_config": SCRAM_JAAS + ";"}, "ScramLoginModule is for sasl_mechanism=SCRAM"),
        ("SCRAM-SHA-256", {"sasl_jaas_config": PLAIN_JAAS}, "PlainLoginModule is for sasl_mechanism=PLAIN"),
        ("PLAIN", {"sasl_jaas_config": PLAIN_JAAS.rstrip(";")}, "';' at the end"),
        (
            "PLAIN",
            {"sasl_jaas_config": PLAIN_JAAS.replace("username", "user")},
            "'username' is missing",
        ),
        ("PLAIN", {"sasl_jaas_config": f"a.KerberosModule required p={SECRET};"}, "got 'a.KerberosModule'"),
        ("OAUTHBEARER", {}, "sasl_oauthbearer_token_endpoint_url is missing"),
        ("OAUTHBEARER", credentials(sasl_oauth_token_provider=provider), "sasl_plain_username cannot"),
        ("OAUTHBEARER", {"sasl_jaas_config": f"{OAUTH_JAAS} clientSecret={SECRET};"}, "url is missing"),
        (
            "OAUTHBEARER",
            {
                "sasl_oauth_token_provider": provider,
                "sasl_jaas_config": f"{OAUTH_JAAS} clientSecret={SECRET};",
            },
            "option 'clientSecret' of sasl_jaas_config cannot be used with sasl_oauth_token_provider",
        ),
        (
            "OAUTHBEARER",
            {
                "sasl_oauth_token_provider": provider,
                "sasl_jaas_config": f"{OAUTH_JAAS} unsecuredLoginStringClaim_sub={SECRET};",
            },
            "option 'unsecuredLoginStringClaim_sub' of OAuthBearerLoginModule is not supported",
        ),
        (
            "OAUTHBEARER",
            {
                "sasl_oauth_token_provider": provider,
                "sasl_jaas_config": f"{OAUTH_JAAS} extension_auth={SECRET};",
            },
            "not 'auth'",
        ),
        ("OAUTHBEARER", {"sasl_oauth_token_provider": SECRET}, "expected a callable"),
        (
            "PLAIN",
            {"sasl_jaas_config": 'PlainLoginModule required username="a" password="b";'},
            "software.amazon.msk.auth.iam.IAMLoginModule, got 'PlainLoginModule'",
        ),
        ("NTLM", {}, "expected one of none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (
            "PLAIN",
            credentials(security_protocol="PLAINTEXT"),
            "expected SASL_SSL or SASL_PLAINTEXT with",
        ),
        (None, credentials(security_protocol="PLAINTEXT"), "with sasl_plain_username, got PLAINTEXT"),
        ("PLAIN", credentials(sasl_plain_password=7), "expected text, got a value of type int"),
        ("PLAIN", credentials(sasl_plain_password=SECRET + "\ud800"), "UTF-8 can encode"),
    ],
)
def test_contradictions_are_refused_before_any_connection(mechanism, others, complaint):
    with pytest.raises(ConfigError) as caught:
        sasl_mechanism_of(config(mechanism, **others))
    assert complaint in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


SECRETS = [name for name, setting in SETTINGS.items() if setting.is_secret]


def test_which_settings_are_secrets():
    assert set(SECRETS) >= {"sasl_plain_password", "sasl_jaas_config"}


@pytest.mark.parametrize("name", SECRETS)
def test_no_repr_and_no_error_shows_a_secret(name):
    chosen = config("PLAIN", **credentials())
    # Not through the constructor: the repr must hide even a value that the constructor would refuse.
    object.__setattr__(chosen, name, f"xx{SECRET}xx")
    assert SECRET not in repr(chosen) + str(chosen)
    for value in (SECRET.encode(), [SECRET], {SECRET: SECRET}):
        with pytest.raises(ConfigError) as caught:
            config("PLAIN", **{name: value})
        assert SECRET not in "".join(traceback.format_exception(caught.value))


URLS = ("sasl_oauthbearer_token_endpoint_url", "sasl_oauthbearer_assertion_claim_aud")


@pytest.mark.parametrize("name", URLS)
@pytest.mark.parametrize(
    ("url", "visible"),
    [
        ("https://issuer.test/token", "https://issuer.test/token"),
        (f"https://issuer.test:1/token?key={SECRET}", "https://issuer.test:1/token"),
        (f"https://issuer.test/token#{SECRET}", "https://issuer.test/token"),
        (f"https://u:{SECRET}@issuer.test/token?key={SECRET}", "https://issuer.test/token"),
        (f"u:{SECRET}@issuer.test", "issuer.test"),
        # What belongs to the password is not clear.
        (f"https://u:?{SECRET}@issuer.test", "(not shown)"),
        (f"https://u:/{SECRET}@issuer.test", "(not shown)"),
        (f"https://u:{SECRET}@{SECRET}@issuer.test", "(not shown)"),
        (f"https://issuer.test/?mail=a@{SECRET}", "(not shown)"),
        ("file:///var/run/token", "file:///var/run/token"),
        ("any audience", "any audience"),
    ],
)
def test_a_repr_shows_a_url_without_user_password_and_query(name, url, visible):
    chosen = config("OAUTHBEARER", **{name: url})
    assert f" {name}={visible!r}," in repr(chosen)
    assert SECRET not in repr(chosen) + str(chosen)
    assert getattr(pickle.loads(pickle.dumps(chosen)), name) == url


@pytest.mark.parametrize("name", URLS)
@pytest.mark.parametrize("url", [SECRET.encode(), [SECRET], f"https://{SECRET}\ud800@issuer.test"])
def test_no_error_shows_a_url_that_is_not_text(name, url):
    with pytest.raises(ConfigError, match="expected text") as caught:
        config("OAUTHBEARER", **{name: url})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "chosen",
    [
        config("PLAIN", **credentials()),
        config(
            "OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=f"https://issuer.invalid/token?key={SECRET}",
            sasl_jaas_config=f"{OAUTH_JAAS} clientId=c clientSecret={SECRET};",
        ),
    ],
)
def test_nothing_that_a_producer_shows_has_a_secret(chosen, caplog):
    caplog.set_level("DEBUG")
    given = {k: v for k, v in vars(chosen).items() if k.startswith(("sasl_", "security_", "bootstrap_"))}
    with KafkaProducer(**given) as producer:
        texts = [repr(producer), str(producer.metrics()), repr(vars(producer))]
        with pytest.raises(TypeError):
            pickle.dumps(producer)
    assert SECRET not in "".join(texts) + caplog.text
