"""Tokens for the identity of a machine or workload: what is asked of IMDS, Entra and STS; no secret shown."""

from __future__ import annotations

import time
import traceback

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security import aws_web_identity
from kproducer._core.security.oauth_tokens import RetriableTokenError
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer.errors import AuthenticationError, ConfigError
from tests.support.aws import KEY, ROLE, SECRET, remove_identity, running_aws
from tests.support.identity_provider import CLIENT_ASSERTION, CLIENT_ID, json_answer
from tests.support.loopback import closed_port
from tests.support.secrets_in_errors import places_of

QUERY = "api-version=2018-02-01&resource=https://ns.servicebus.windows.net&client_id=c-1"
IMDS = {
    "sasl_oauthbearer_method": "oidc",
    "sasl_oauthbearer_metadata_authentication_type": "azure_imds",
    "sasl_oauthbearer_config": f"query={QUERY}",
}
WORKLOAD = {
    "sasl_oauthbearer_metadata_authentication_type": "azure_workload_identity",
    "sasl_oauthbearer_scope": "https://ns.servicebus.windows.net/.default",
}
AWS = {"sasl_oauthbearer_metadata_authentication_type": "aws_iam"}
AUDIENCE = "region=eu-west-1,audience=https://kafka.test"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No identity of this machine."""
    for name in ("CLIENT_ID", "TENANT_ID", "FEDERATED_TOKEN_FILE", "AUTHORITY_HOST"):
        monkeypatch.delenv(f"AZURE_{name}", raising=False)
    remove_identity(monkeypatch, tmp_path)
    return monkeypatch


@pytest.fixture
def aws(environment):
    with running_aws() as running:
        environment.setenv("AWS_ENDPOINT_URL_STS", running.url)
        yield running


def provider_of(**settings):
    """The function that gets tokens, without the thread that calls it."""
    config = ProducerConfig(
        bootstrap_servers="localhost:1",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        **settings,
    )
    return sasl_mechanism_of(config)._tokens._provider


def failure(request, kind=AuthenticationError) -> str:
    with pytest.raises(kind) as caught:
        request()
    assert places_of(SECRET, caught.value) == []
    return str(caught.value)


# -- Azure's metadata service ------------------------------------------------------------------------------


def test_a_token_of_a_managed_identity(idp):
    token = provider_of(**IMDS, sasl_oauthbearer_token_endpoint_url=idp.imds_url)()
    assert token.value == idp.issued[-1]
    assert time.time() + 3000 < token.expires_at <= time.time() + 3600
    path = "/metadata/identity/oauth2/token?" + QUERY
    assert idp.exchanges[-1] == ("GET", path, {"Accept": "application/json", "Metadata": "true"}, {})


def test_no_request_to_a_metadata_service_goes_through_a_proxy(idp, environment):
    environment.delenv("NO_PROXY", raising=False)
    environment.delenv("no_proxy", raising=False)
    with closed_port() as port:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            environment.setenv(name, f"http://127.0.0.1:{port}")
        token = provider_of(**IMDS, sasl_oauthbearer_token_endpoint_url=idp.imds_url)()
    assert token.value == idp.issued[-1]


def test_the_address_of_the_metadata_service_is_azures():
    default = "http://169.254.169.254/metadata/identity/oauth2/token"
    assert default in provider_of(**IMDS).where


@pytest.mark.parametrize("query", ["a=1&b=x\\,y", "b=x\\,y"])
def test_the_query_is_appended_to_that_of_the_url(idp, query):
    idp.answer_next(json_answer(200, access_token="t", expires_in=5))
    url = idp.imds_url + ("?a=1" if query.startswith("b") else "")
    kind = IMDS["sasl_oauthbearer_metadata_authentication_type"]
    provider_of(
        sasl_oauthbearer_metadata_authentication_type=kind,
        sasl_oauthbearer_config=f" query={query} ",
        sasl_oauthbearer_token_endpoint_url=url,
    )()
    assert idp.exchanges[-1][1].endswith("?a=1&b=x,y")


@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_a_metadata_service_that_is_busy_or_updated_may_be_asked_again(idp, status):
    idp.answer_next(json_answer(status, error="busy"))
    text = failure(provider_of(**IMDS, sasl_oauthbearer_token_endpoint_url=idp.imds_url), RetriableTokenError)
    assert text == (
        f"the token endpoint {idp.imds_url} (sasl_oauthbearer_token_endpoint_url) answered with HTTP status"
        f" {status}: busy"
    )


def test_an_identity_that_the_machine_does_not_have(idp):
    idp.answer_next(json_answer(400, error="invalid_request", error_description="Identity not found"))
    text = failure(provider_of(**IMDS, sasl_oauthbearer_token_endpoint_url=idp.imds_url))
    assert "HTTP status 400: invalid_request: Identity not found; check its URL, and the identities" in text


# -- Entra's workload identity -----------------------------------------------------------------------------


def test_a_workload_authenticates_with_the_token_of_its_platform(idp, environment, tmp_path):
    path = tmp_path / "federated"
    environment.setenv("AZURE_FEDERATED_TOKEN_FILE", str(path))
    environment.setenv("AZURE_CLIENT_ID", CLIENT_ID)
    environment.setenv("AZURE_TENANT_ID", "tenant-1")
    environment.setenv("AZURE_AUTHORITY_HOST", idp.token_url.removesuffix("token"))
    path.write_text("first\n")
    provider = provider_of(**WORKLOAD)
    for text in ("first", "second"):  # the platform replaces the file
        path.write_text(text)
        idp.answer_next(json_answer(200, access_token="t", expires_in=3600))
        assert provider().value == "t"
        method, target, _, form = idp.exchanges[-1]
        assert (method, target) == ("POST", "/tenant-1/oauth2/v2.0/token")
        assert form == {
            "grant_type": "client_credentials",
            "client_assertion_type": CLIENT_ASSERTION,
            "client_assertion": text,
            "client_id": CLIENT_ID,
            "scope": "https://ns.servicebus.windows.net/.default",
        }


def test_settings_replace_the_variables_of_a_workload(idp, tmp_path):
    (tmp_path / "token").write_text("text")
    provider = provider_of(
        **WORKLOAD,
        sasl_oauthbearer_token_endpoint_url=idp.token_url,
        sasl_oauthbearer_client_credentials_client_id="mine",
        sasl_oauthbearer_assertion_file=str(tmp_path / "token"),
    )
    idp.answer_next(json_answer(401, error="invalid_client", error_description="AADSTS700021 text"))
    text = failure(provider)
    assert "HTTP status 401: invalid_client: AADSTS700021 (not shown)" in text
    assert idp.exchanges[-1][3]["client_id"] == "mine"


@pytest.mark.parametrize(
    ("variable", "authority"),
    [
        ("", "https://login.microsoftonline.com"),
        ("login.microsoftonline.us", "https://login.microsoftonline.us"),
        ("https://login.chinacloudapi.cn/", "https://login.chinacloudapi.cn"),
    ],
)
def test_the_authority_is_microsofts_or_that_of_the_variable(environment, tmp_path, variable, authority):
    environment.setenv("AZURE_AUTHORITY_HOST", variable)
    (tmp_path / "token").write_text("text")
    environment.setenv("AZURE_TENANT_ID", "tenant-1")
    provider = provider_of(
        **WORKLOAD,
        sasl_oauthbearer_client_credentials_client_id="c",
        sasl_oauthbearer_assertion_file=str(tmp_path / "token"),
    )
    assert f"the token endpoint {authority}/tenant-1/oauth2/v2.0/token " in provider.where


@pytest.mark.parametrize("missing", ["AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID"])
def test_a_missing_variable_is_named(environment, tmp_path, missing):
    (tmp_path / "token").write_text("text")
    environment.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    environment.setenv("AZURE_CLIENT_ID", "c")
    environment.setenv("AZURE_TENANT_ID", "t")
    environment.delenv(missing)
    with pytest.raises(ConfigError, match=f"the environment variable {missing} is missing"):
        provider_of(**WORKLOAD)


# -- AWS STS -----------------------------------------------------------------------------------------------


def test_a_token_of_aws_sts(aws, environment):
    environment.setenv("AWS_ACCESS_KEY_ID", KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    parameters = f"{AUDIENCE}, duration_seconds=900, signing_algorithm=RS256, tag_team=a\\,b"
    token = provider_of(**AWS, sasl_oauthbearer_config=parameters)()
    assert token.value == aws.web_token
    assert time.time() + 3000 < token.expires_at <= time.time() + 3600
    assert aws.requests == [
        {
            "Action": "GetWebIdentityToken",
            "Version": "2011-06-15",
            "Audience.member.1": "https://kafka.test",
            "DurationSeconds": "900",
            "SigningAlgorithm": "RS256",
            "Tags.member.1.Key": "team",
            "Tags.member.1.Value": "a,b",
        }
    ]


def test_the_credentials_may_be_those_of_a_web_identity(aws, environment, tmp_path):
    (tmp_path / "jwt").write_text(SECRET)
    environment.setenv("AWS_ROLE_ARN", ROLE)
    environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "jwt"))
    endpoint = f"{AUDIENCE},sts_endpoint={aws.url}"
    assert provider_of(**AWS, sasl_oauthbearer_config=endpoint)().value == aws.web_token
    assume, get = aws.requests
    assert (assume["Action"], get["Action"]) == ("AssumeRoleWithWebIdentity", "GetWebIdentityToken")
    assert (assume["RoleArn"], assume["WebIdentityToken"]) == (ROLE, SECRET)


def test_sts_refuses(aws, environment):
    environment.setenv("AWS_ACCESS_KEY_ID", KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    aws.is_denied = True
    text = failure(provider_of(**AWS, sasl_oauthbearer_config=AUDIENCE))
    assert (
        "AWS STS, region eu-west-1 (sasl_oauthbearer_config) answered with HTTP status 403: AccessDenied"
        in text
    )


@pytest.mark.parametrize("status", [0, 503])
def test_a_request_to_sts_that_is_not_answered_may_be_repeated(aws, environment, status):
    environment.setattr(aws_web_identity, "_ATTEMPTS", 1)
    environment.setenv("AWS_ACCESS_KEY_ID", KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    aws.sts_status, aws.sts_body = status, "<ErrorResponse/>"
    with closed_port() as port:
        url = aws.url if status else f"http://127.0.0.1:{port}"
        provider = provider_of(**AWS, sasl_oauthbearer_config=f"{AUDIENCE},sts_endpoint={url}")
        text = failure(provider, RetriableTokenError)
    assert (f"HTTP status {status}" if status else "EndpointConnectionError: Could not connect") in text


def answered_with(body):
    def set_up(environment, path, aws):
        environment.setenv("AWS_ACCESS_KEY_ID", KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        aws.sts_body = body

    return set_up


def missing_file(environment, path, aws):
    environment.setenv("AWS_ROLE_ARN", ROLE)
    environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(path / "jwt"))


def process_without_json(environment, path, aws):
    environment.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    (path / "config").write_text(f"[default]\ncredential_process = echo {SECRET}\n")


@pytest.mark.parametrize(
    ("set_up", "why"),
    [
        (process_without_json, "JSONDecodeError"),
        (missing_file, "FileNotFoundError: No such file or directory: {path}/jwt"),
        (answered_with(f"<html>{SECRET}"), "ResponseParserError"),
        (answered_with("<R><R><WebIdentityToken>t</WebIdentityToken></R></R>"), "KeyError"),
    ],
)
def test_what_else_goes_wrong_in_awss_package_is_named_without_its_text(
    aws, environment, tmp_path, set_up, why
):
    set_up(environment, tmp_path, aws)
    provider = provider_of(**AWS, sasl_oauthbearer_config=AUDIENCE)
    with pytest.raises(AuthenticationError) as caught:
        provider()
    error = caught.value
    assert str(error) == f"{provider.where} has not given a token: {why.format(path=tmp_path)}"
    assert (error.__cause__, error.__context__) == (None, None)
    assert places_of(SECRET, error) == []


def test_without_aws_credentials():
    text = failure(provider_of(**AWS, sasl_oauthbearer_config=AUDIENCE))
    assert "has not given a token: NoCredentialsError" in text


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"sasl_oauthbearer_config": f"query={SECRET}"}, "has no effect without sasl_oauthbearer_metadata"),
        ({"sasl_oauthbearer_metadata_authentication_type": "gcp"}, "expected one of none, azure_imds"),
        ({**IMDS, "sasl_oauthbearer_config": ""}, "sasl_oauthbearer_config is missing"),
        ({**IMDS, "sasl_oauthbearer_config": SECRET}, "got a part without '='"),
        ({**IMDS, "sasl_oauthbearer_config": "query=a,resource=b"}, "azure_imds has the parameter 'query'"),
        (
            {**IMDS, "sasl_oauthbearer_config": "query=a b"},
            "_config: query: expected printable ASCII",
        ),
        (
            {**IMDS, "sasl_oauthbearer_token_endpoint_url": f"http://a:{SECRET.replace('/', '')}@b/"},
            "remove what is before '@'",
        ),
        ({**IMDS, "sasl_oauthbearer_token_endpoint_url": "file:///x"}, "the URL of a metadata service"),
        ({**IMDS, "sasl_oauthbearer_client_credentials_client_secret": SECRET}, "secret: has no effect with"),
        ({**IMDS, "sasl_oauth_token_provider": print}, "cannot be used with sasl_oauth_token_provider"),
        (
            {
                **IMDS,
                "sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
                f" required clientSecret={SECRET};",
            },
            "option 'clientSecret' of sasl_jaas_config: has no effect",
        ),
        ({**WORKLOAD, "sasl_oauthbearer_scope": ""}, "AZURE_CLIENT_ID is missing: sasl_oauthbearer_met"),
        ({**WORKLOAD, "sasl_oauthbearer_config": "a=b"}, "sasl_oauthbearer_config: has no effect with"),
        (
            {
                **AWS,
                "sasl_oauthbearer_config": AUDIENCE,
                "sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
                " required ssl.truststore.type=PEM;",
            },
            "option 'ssl.truststore.type' of sasl_jaas_config: has no effect",
        ),
        (AWS, "sasl_oauthbearer_config: region is missing"),
        ({**AWS, "sasl_oauthbearer_config": "region=eu-west-1"}, "audience is missing"),
        ({**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},tag_=x"}, "expected one of region, audience,"),
        ({**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},audience=x"}, "'audience' is there twice"),
        (
            {**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},duration_seconds=59"},
            "from 60 to 3600, got another",
        ),
        ({**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},signing_algorithm=none"}, "=ES384 or RS256, got"),
        ({**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},sts_endpoint=sts"}, "sts_endpoint: expected https"),
        ({**AWS, "sasl_oauthbearer_config": f"{AUDIENCE},aws_debug=console"}, "aws_debug=none"),
        (
            {**AWS, "sasl_oauthbearer_config": AUDIENCE, "sasl_oauthbearer_token_endpoint_url": "http://a/"},
            "sasl_oauthbearer_token_endpoint_url: has no effect with",
        ),
    ],
)
def test_contradictions_are_refused_before_any_connection(settings, complaint):
    with pytest.raises(ConfigError) as caught:
        provider_of(**settings)
    assert complaint in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
