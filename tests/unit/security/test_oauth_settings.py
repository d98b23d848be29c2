"""From settings to tokens: what selects what, names of other clients, and contradictions."""

from __future__ import annotations

import time
import traceback

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security.oauth_tokens import OAuthToken
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer.errors import ConfigError
from tests.support.identity_provider import (
    CLIENT_ASSERTION,
    CLIENT_ID,
    CLIENT_SECRET,
    JWT_BEARER,
    IdentityProvider,
)

SECRET = "hunter2"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
URL = "https://issuer.test/token"
ENDPOINT = {"sasl_oauthbearer_token_endpoint_url": URL}
CLIENT = {
    "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
    "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
}
BEARER = {"sasl_oauthbearer_jwt_retriever_class": "JwtBearerJwtRetriever"}


@pytest.fixture(scope="module")
def idp():
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def files(idp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("oauth")
    contents = {
        "assertion": idp.new_token(),
        "bad-template": "[]",
        "other-template": '{"claims": {}}',
        "empty": "",
        "template": '{"header": {"kid": "7"}, "payload": {"sub": "template", "tenant": "t"}}',
        "token": idp.new_token() + "\r\n",
    }
    paths = {name: folder / name for name in contents}
    for name, text in contents.items():
        paths[name].write_text(text)
    return {
        **{name: str(path) for name, path in paths.items()},
        "rsa": idp.write_client_key(folder),
        "ec": idp.write_client_key(folder, "ES256"),
        "missing": str(folder / "missing"),
    }


def config(**others) -> ProducerConfig:
    return ProducerConfig(
        bootstrap_servers="localhost:1",
        security_protocol="SASL_PLAINTEXT",
        **{"sasl_mechanism": "OAUTHBEARER", **others},
    )


def token_of(chosen: ProducerConfig) -> OAuthToken:
    """The token that the settings lead to, without the thread."""
    return sasl_mechanism_of(chosen)._tokens._provider()


def from_dotted(idp, **others) -> ProducerConfig:
    names = {name.replace("_", "."): value for name, value in others.items()}
    return ProducerConfig.from_dotted(
        {
            "bootstrap.servers": "localhost:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": idp.token_url,
            **names,
        }
    )


def jaas(options: str) -> dict[str, str]:
    return {"sasl_jaas_config": f"{PACKAGE}.OAuthBearerLoginModule required {options};"}


JAVA_CLIENT = {name.replace("_", "."): value for name, value in CLIENT.items()}
JAAS_CLIENT = f'clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" scope="a b"'


@pytest.mark.parametrize(
    "names",
    [
        {**CLIENT, "sasl_oauthbearer_scope": "a b"},
        {
            **jaas(JAAS_CLIENT),
            "sasl_login_callback_handler_class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        },
        {
            "sasl_jaas_config": "kafkashaded." + jaas(JAAS_CLIENT)["sasl_jaas_config"],
            "sasl_login_callback_handler_class": (
                f"kafkashaded.{PACKAGE}.secured.OAuthBearerLoginCallbackHandler"
            ),
        },
        # The settings take precedence, as in Java.
        {**CLIENT, **jaas('clientId="other" clientSecret="other" scope="a b"')},
        {
            "sasl_oauthbearer_method": "oidc",
            "sasl_oauthbearer_client_id": CLIENT_ID,
            "sasl_oauthbearer_client_secret": CLIENT_SECRET,
            "sasl_oauthbearer_scope": "a b",
            "sasl_oauthbearer_grant_type": "client_credentials",
        },
    ],
)
def test_client_credentials_in_the_names_of_every_client(idp, names):
    before_s = time.time()
    token = token_of(from_dotted(idp, **names))
    assert token.value == idp.issued[-1]
    assert int(before_s) + 3600 <= token.expires_at <= time.time() + 3600
    form = idp.requests[-1]
    assert form.pop("authorization").startswith("Basic ")
    assert form == {"grant_type": "client_credentials", "scope": "a b"}


def test_client_id_and_secret_may_be_encoded(idp):
    encoded = from_dotted(idp, **CLIENT, sasl_oauthbearer_header_urlencode="true")
    assert token_of(encoded).value == idp.issued[-1]
    plain = token_of(from_dotted(idp, **CLIENT))
    assert plain.value == idp.issued[-1]
    assert idp.requests[-1]["authorization"] != idp.requests[-2]["authorization"]


def with_key(idp, files, algorithm="RS256", **others):
    return {
        "sasl_oauthbearer_token_endpoint_url": idp.token_url,
        "sasl_oauthbearer_assertion_private_key_file": files["rsa" if algorithm == "RS256" else "ec"],
        "sasl_oauthbearer_assertion_algorithm": algorithm,
        "sasl_oauthbearer_assertion_claim_iss": CLIENT_ID,
        "sasl_oauthbearer_assertion_claim_sub": CLIENT_ID,
        "sasl_oauthbearer_assertion_claim_aud": idp.token_url,
        **others,
    }


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_the_client_authenticates_with_an_assertion(idp, files, algorithm):
    chosen = with_key(idp, files, algorithm, sasl_oauthbearer_client_credentials_client_id="c")
    assert token_of(config(**chosen)).value == idp.issued[-1]
    form = idp.requests[-1]
    assert form.pop("client_assertion").count(".") == 2
    assert form == {
        "authorization": "",
        "grant_type": "client_credentials",
        "client_assertion_type": CLIENT_ASSERTION,
        "client_id": "c",
    }


@pytest.mark.parametrize("retriever", [f"{PACKAGE}.JwtBearerJwtRetriever", JWT_BEARER])
def test_the_assertion_is_the_grant(idp, files, retriever):
    chosen = with_key(idp, files, sasl_oauthbearer_jwt_retriever_class=retriever, sasl_oauthbearer_scope="s")
    assert token_of(config(**chosen)).value == idp.issued[-1]
    form = idp.requests[-1]
    assert form.pop("assertion").count(".") == 2
    assert form == {"authorization": "", "grant_type": JWT_BEARER, "scope": "s"}


def test_an_assertion_has_preference_over_a_secret_as_in_java(idp, files):
    token_of(config(**with_key(idp, files), **CLIENT))
    assert idp.requests[-1]["client_assertion_type"] == CLIENT_ASSERTION


def test_settings_with_which_javas_clients_check_tokens_have_no_effect(idp, files):
    checks = {
        "sasl_oauthbearer_sub_claim_name": "azp",
        "sasl_oauthbearer_scope_claim_name": "scp",
        "sasl_oauthbearer_jwt_validator_class": f"{PACKAGE}.ClientJwtValidator",
    }
    assert token_of(from_dotted(idp, **CLIENT, **checks)).value == idp.issued[-1]
    token_of(config(sasl_oauthbearer_token_endpoint_url=f"file://{files['token']}", **checks))
    sasl_mechanism_of(config(sasl_oauth_token_provider=print, **checks))


def test_a_token_from_a_file(files, idp):
    for url in (f"file://{files['token']}", f"file:{files['token']}"):
        token = token_of(config(sasl_oauthbearer_token_endpoint_url=url))
        assert token.expires_at > time.time()
        assert not token.value.endswith(("\r", "\n"))
    retriever = {"sasl_oauthbearer_jwt_retriever_class": "FileJwtRetriever"}
    token_of(config(sasl_oauthbearer_token_endpoint_url=url, **retriever))


def test_extensions_of_all_kinds_are_sent_together(idp):
    mechanism = sasl_mechanism_of(
        config(
            **ENDPOINT,
            **CLIENT,
            **jaas('extension_logicalCluster="lkc-1"'),
            sasl_oauthbearer_extensions="identityPoolId=pool=1, tenant=t",
        )
    )
    assert mechanism.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool=1", "tenant": "t"}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (CLIENT, "sasl_oauthbearer_token_endpoint_url is missing"),
        ({"sasl_oauthbearer_method": "oidc"}, "sasl_oauthbearer_token_endpoint_url is missing"),
        (ENDPOINT, "client_id is missing"),
        ({**ENDPOINT, "sasl_oauthbearer_client_credentials_client_secret": SECRET}, "client_id is missing"),
        ({**ENDPOINT, "sasl_oauthbearer_client_credentials_client_id": "c"}, "client_secret is missing"),
        ({**ENDPOINT, **jaas("clientId=c")}, "option 'clientSecret' of OAuthBearerLoginModule"),
        ({**ENDPOINT, **jaas(f"clientID={SECRET}")}, "option 'clientID' of OAuthBearerLoginModule is not"),
        ({"sasl_oauthbearer_token_endpoint_url": "issuer.test/token"}, "expected https://host/path"),
        ({"sasl_oauthbearer_token_endpoint_url": "ftp://issuer.test/"}, "expected https://host/path"),
        ({"sasl_oauthbearer_token_endpoint_url": "https:///token"}, "expected https://host/path"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://host:x/token"}, "a URL that is not valid"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://ho st/"}, "expected https://host/path"),
        ({"sasl_oauthbearer_token_endpoint_url": f"https://u:{SECRET}@host/"}, "one with '@'"),
        ({"sasl_oauthbearer_token_endpoint_url": "file:///no/such/{SECRET}"}, "cannot read"),
        ({"sasl_oauthbearer_token_endpoint_url": "file://{token}", **CLIENT}, "client_id: has no effect"),
        ({"sasl_oauthbearer_token_endpoint_url": "file://{token}", **BEARER}, "Retriever: has no effect"),
        ({**ENDPOINT, "sasl_oauthbearer_jwt_retriever_class": "FileJwtRetriever"}, "a file:/// URL"),
        ({**ENDPOINT, "sasl_oauthbearer_jwt_retriever_class": "com.acme.Retriever"}, "other classes cannot"),
        (
            {**ENDPOINT, "sasl_oauthbearer_jwt_retriever_class": "com.acme.JwtBearerJwtRetriever"},
            "other classes cannot",
        ),
        ({**ENDPOINT, "sasl_oauthbearer_jwt_retriever_class": "password"}, "expected one of DefaultJwt"),
        ({**ENDPOINT, "sasl_login_callback_handler_class": "com.acme.Handler"}, "other classes cannot"),
        ({**ENDPOINT, **BEARER}, "private_key_file is missing"),
        ({**ENDPOINT, **BEARER, **CLIENT, "sasl_oauthbearer_assertion_file": "{assertion}"}, "has no effect"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_claim_iss": "c"}, "private_key_file is missing"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_private_key_passphrase": SECRET}, "key_file is missing"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_file": "{missing}"}, "assertion_file: cannot read"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_private_key_file": "{missing}"}, "key_file: cannot read"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_private_key_file": "{empty}"}, "found no private key"),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_private_key_file": "{ec}"}, "expected an RSA key"),
        (
            {
                **ENDPOINT,
                "sasl_oauthbearer_assertion_private_key_file": "{rsa}",
                "sasl_oauthbearer_assertion_algorithm": "ES256",
            },
            "expected an EC key",
        ),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_algorithm": "none"}, "expected one of RS256, ES256"),
        (
            {
                **ENDPOINT,
                "sasl_oauthbearer_assertion_private_key_file": "{rsa}",
                "sasl_oauthbearer_assertion_private_key_pem": SECRET,
            },
            "contradicts sasl_oauthbearer_assertion_private_key_file",
        ),
        (
            {
                **ENDPOINT,
                "sasl_oauthbearer_assertion_private_key_file": "{rsa}",
                "sasl_oauthbearer_assertion_file": "{assertion}",
            },
            "private_key_file: has no effect with sasl_oauthbearer_assertion_file",
        ),
        ({**ENDPOINT, "sasl_oauthbearer_assertion_private_key_pem": SECRET}, "pem: found no private key"),
        (
            {
                **ENDPOINT,
                "sasl_oauthbearer_assertion_private_key_file": "{rsa}",
                "sasl_oauthbearer_assertion_template_file": "{bad-template}",
            },
            "template_file: ",
        ),
        (
            {
                **ENDPOINT,
                "sasl_oauthbearer_assertion_private_key_file": "{rsa}",
                "sasl_oauthbearer_assertion_template_file": "{other-template}",
            },
            "must have the form",
        ),
        ({**ENDPOINT, **CLIENT, "sasl_oauthbearer_extensions": "a"}, "without '='"),
        ({**ENDPOINT, **CLIENT, "sasl_oauthbearer_extensions": "auth=a"}, "not 'auth'"),
        ({**ENDPOINT, **CLIENT, "sasl_oauthbearer_extensions": "a=1,a=2"}, "there twice"),
        (
            {**ENDPOINT, **CLIENT, "https_ca_location": "{missing}"},
            "https_ca_location: for the token endpoint",
        ),
        ({**ENDPOINT, **CLIENT, "https_ca_location": "{rsa}"}, "https_ca_location: for the token endpoint"),
        (
            {**ENDPOINT, **CLIENT, "https_ca_location": "{rsa}", "https_ca_pem": "x"},
            "contradicts https_ca_loc",
        ),
        (
            {**ENDPOINT, **CLIENT, "https_ca_pem": "x", **jaas("ssl.truststore.location=y")},
            "contradicts https_ca_pem",
        ),
        ({**ENDPOINT, **CLIENT, **jaas("ssl.trust=y")}, "sasl_jaas_config: for the token endpoint: unknown"),
        ({**ENDPOINT, **CLIENT, "sasl_oauth_token_provider": print}, "cannot be used with sasl_oauth_token"),
        ({**ENDPOINT, "sasl_mechanism": "PLAIN"}, "endpoint_url cannot be used with sasl_mechanism=PLAIN"),
        ({**ENDPOINT, "sasl_login_retry_backoff_ms": 20_000}, "retry_backoff_max_ms: expected at least"),
        ({**ENDPOINT, "sasl_login_refresh_window_factor": 0.4}, "a number from 0.5 to 1.0, got 0.4"),
        ({**ENDPOINT, "sasl_login_refresh_window_factor": "0.8"}, "a number from 0.5 to 1.0, got '0.8'"),
    ],
)
def test_contradictions_are_refused_before_any_connection(files, settings, complaint):
    filled = {
        name: value.format_map({**files, "SECRET": SECRET})
        if isinstance(value, str) and "{" in value
        else value
        for name, value in settings.items()
    }
    with pytest.raises(ConfigError) as caught:
        sasl_mechanism_of(config(**filled))
    assert complaint in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)).replace(f"/no/such/{SECRET}", "")
    assert SECRET not in shown
    assert CLIENT_SECRET not in shown


def test_two_names_of_one_setting():
    with pytest.raises(ConfigError, match=r"the same setting as sasl\.oauthbearer\.client\.id"):
        ProducerConfig.from_dotted({**JAVA_CLIENT, "sasl.oauthbearer.client.id": "c"})


def test_librdkafkas_names_as_keywords():
    for name, own in (
        ("sasl_oauthbearer_client_id", "sasl_oauthbearer_client_credentials_client_id"),
        ("sasl_oauthbearer_grant_type", "sasl_oauthbearer_jwt_retriever_class"),
    ):
        with pytest.raises(ConfigError, match=f"did you mean {own}"):
            ProducerConfig.from_keywords({"bootstrap_servers": "localhost:1", name: "x"})


@pytest.mark.parametrize("name", ["allow.unverified.issuer", "jwks.endpoint.url", "expected.audience"])
def test_settings_with_which_brokers_verify_tokens(idp, name):
    with pytest.raises(ConfigError, match="brokers verify tokens; remove the setting"):
        from_dotted(idp, **{f"sasl.oauthbearer.{name}": "x"})
