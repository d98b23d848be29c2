"""AWS_MSK_IAM: what is signed, with which credentials, and how often AWS is asked for them. No network."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security import bounded_aws_calls
from kproducer._core.security.aws_msk_iam import aws_msk_iam_mechanism
from kproducer._core.security.sasl_mechanisms import OAuthBearerMechanism
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer.errors import AuthenticationError, ConfigError
from tests.support.aws import KEY, ROLE, SECRET, is_signed_by, query_of, remove_identity, running_aws
from tests.support.secrets_in_errors import places_of
from tests.support.sigv4 import expected_signature, signing_key
from tests.support.waiting import wait_until

BROKER = "b-1.mycluster.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"
JAAS = "software.amazon.msk.auth.iam.IAMLoginModule required"
ROLE_JAAS = f'{JAAS} awsRoleArn="{ROLE}"'


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No credentials of this machine."""
    remove_identity(monkeypatch, tmp_path)
    return monkeypatch


@pytest.fixture
def aws(environment):
    with running_aws() as running:
        environment.setenv("AWS_ENDPOINT_URL_STS", running.url)
        environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", running.url)
        yield running


def mechanism_of(**settings) -> OAuthBearerMechanism:
    chosen = {"bootstrap_servers": BROKER, "security_protocol": "SASL_SSL", **settings}
    mechanism = sasl_mechanism_of(ProducerConfig(sasl_mechanism="AWS_MSK_IAM", **chosen))
    assert isinstance(mechanism, OAuthBearerMechanism)
    return mechanism


def tokens_of(**settings):
    """The function that signs tokens, without the thread that calls it."""
    return mechanism_of(**settings)._tokens._provider


def set_keys(environment, key=KEY, secret=SECRET):
    environment.setenv("AWS_ACCESS_KEY_ID", key)
    environment.setenv("AWS_SECRET_ACCESS_KEY", secret)


def test_the_signatures_in_these_tests_are_those_that_aws_publishes():
    """AWS General Reference: derivation of a signing key, and the example of a signature in the query."""
    key = signing_key(SECRET, "20150830", "us-east-1", "iam")
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    url = (
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08&X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fiam%2Faws4_request"
        "&X-Amz-Date=20150830T123600Z&X-Amz-Expires=60&X-Amz-SignedHeaders=content-type%3Bhost"
    )
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert expected_signature(url, SECRET, headers) == (
        "37ac2f4fde00b0ac9bd9eadeb459b1bbee224158d66e7ae5fcadb70b2d181d02"
    )


def test_a_token_is_signed_for_the_cluster_and_its_region(environment):
    set_keys(environment)
    token, expires_at = tokens_of()()
    assert is_signed_by(token, KEY, SECRET)
    assert not is_signed_by(token, KEY, "another secret")
    query = query_of(token)
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].split("/")[2:] == ["eu-central-1", "kafka-cluster", "aws4_request"]
    assert time.time() < expires_at <= time.time() + int(query["X-Amz-Expires"])


def test_temporary_credentials_send_their_session_token(environment):
    set_keys(environment)
    environment.setenv("AWS_SESSION_TOKEN", "a/session+token==")
    token, _ = tokens_of()()
    assert is_signed_by(token, KEY, SECRET)
    assert query_of(token)["X-Amz-Security-Token"] == "a/session+token=="


def test_credentials_that_are_never_found_do_not_end_the_requests_for_tokens(environment, tmp_path):
    """AWS's packages have timeouts for single reads, and none for an external process."""
    gate, script, calls = tmp_path / "gate", tmp_path / "process", tmp_path / "calls"
    gate.touch()
    answer = json.dumps({"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET})
    script.write_text(f"echo >> {calls}\nwhile [ -e {gate} ]; do sleep 0.05; done\necho '{answer}'\n")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = /bin/sh {script}\n")
    environment.setattr(bounded_aws_calls, "LONGEST_S", 0.5)
    tokens = tokens_of()
    for _ in range(6):
        with pytest.raises(AuthenticationError, match=r"the AWS credentials are not available: .* 0\.5 s"):
            tokens()
    gate.unlink()
    assert 1 <= len(calls.read_text()) <= bounded_aws_calls.MOST_UNANSWERED
    wait_until(lambda: not any(thread.name == "kproducer-aws" for thread in threading.enumerate()))
    assert is_signed_by(tokens()[0], KEY, SECRET)


@pytest.mark.parametrize(
    ("server", "settings", "variables", "region"),
    [
        (BROKER, {}, {"AWS_REGION": "us-east-1"}, "eu-central-1"),
        ("boot-1a2b.c1.kafka-serverless.us-west-2.amazonaws.com.:9098", {}, {}, "us-west-2"),
        ("b-1.x.y.c2.kafka.cn-north-1.amazonaws.com.cn:9098", {}, {}, "cn-north-1"),
        ("b-1.x.y.c2.kafka.us-gov-west-1.amazonaws.com:9098", {}, {}, "us-gov-west-1"),
        ("kafka.example.com:9098,b-1.x.kafka.eu-west-1.amazonaws.com:9098", {}, {}, "eu-west-1"),
        ("kafka.us-east-1.example.com:9098", {}, {"AWS_REGION": "eu-north-1"}, "eu-north-1"),
        ("10.0.0.1:9098", {}, {"AWS_DEFAULT_REGION": "ap-south-1"}, "ap-south-1"),
        (BROKER, {"sasl_aws_region": "ca-central-1"}, {"AWS_REGION": "us-east-1"}, "ca-central-1"),
    ],
)
def test_where_the_region_comes_from(environment, server, settings, variables, region):
    set_keys(environment)
    for name, value in variables.items():
        environment.setenv(name, value)
    token, _ = tokens_of(bootstrap_servers=server, **settings)()
    assert query_of(token)["X-Amz-Credential"].split("/")[2] == region


def test_temporary_credentials_are_asked_for_once(aws, environment):
    environment.setenv("AWS_EC2_METADATA_DISABLED", "false")
    tokens = tokens_of()
    first = [tokens()[0] for _ in range(20)]
    assert all(is_signed_by(token, "ASIAINSTANCE", "instance-secret") for token in first)
    assert len(aws.requests) == 3  # a token for the metadata service, the name of the role, its credentials


def test_temporary_credentials_are_replaced_before_they_expire(aws, environment):
    set_keys(environment)
    aws.lifetime_s = 400
    tokens = tokens_of(sasl_jaas_config=ROLE_JAAS + ";")
    tokens()
    asked = len(aws.requests)
    tokens()
    assert len(aws.requests) > asked


def test_a_token_does_not_outlive_temporary_credentials(aws, environment):
    environment.setenv("AWS_EC2_METADATA_DISABLED", "false")
    aws.lifetime_s = 305  # EC2 replaces credentials five minutes before they expire
    _, expires_at = tokens_of()()
    assert expires_at <= time.time() + 305


def test_keys_that_are_replaced_in_a_file_are_used(environment, tmp_path):
    path = tmp_path / "credentials"
    path.write_text(f"[kafka]\naws_access_key_id = {KEY}\naws_secret_access_key = first\n")
    tokens = tokens_of(sasl_jaas_config=f'{JAAS} awsProfileName="kafka";')
    assert is_signed_by(tokens()[0], KEY, "first")
    path.write_text(f"[kafka]\naws_access_key_id = {KEY}\naws_secret_access_key = second\n")
    assert is_signed_by(tokens()[0], KEY, "second")


def test_a_role_is_assumed_once(aws, environment):
    set_keys(environment)
    jaas = f'{ROLE_JAAS} awsRoleSessionName="orders" awsRoleExternalId="e-1" awsStsRegion="eu-west-1";'
    tokens = tokens_of(sasl_jaas_config=jaas)
    for _ in range(3):
        token, _ = tokens()
        assert is_signed_by(token, "ASIAROLE", "role-secret")
        assert query_of(token)["X-Amz-Security-Token"] == "role-token"
    (request,) = aws.requests
    assert request["RoleArn"] == ROLE
    assert (request["RoleSessionName"], request["ExternalId"]) == ("orders", "e-1")


def test_a_role_can_be_assumed_with_keys_of_the_login_module(aws):
    jaas = f'kafkashaded.{ROLE_JAAS} awsRoleAccessKeyId="{KEY}" awsRoleSecretAccessKey="{SECRET}";'
    assert is_signed_by(tokens_of(sasl_jaas_config=jaas)()[0], "ASIAROLE", "role-secret")


def test_a_role_that_is_refused_is_an_error_in_the_words_of_aws(aws, environment):
    set_keys(environment)
    aws.is_denied = True
    with pytest.raises(AuthenticationError, match=r"AccessDenied.*not authorized to: sts:AssumeRole"):
        tokens_of(sasl_jaas_config=ROLE_JAAS + ";")()


def test_the_identity_is_logged_on_request(aws, environment, caplog):
    set_keys(environment)
    caplog.set_level(logging.INFO)
    tokens_of(sasl_jaas_config=f"{JAAS} awsDebugCreds=true;")()
    assert "(env) belong to arn:aws:iam::123456789012:user/alice" in caplog.text
    aws.is_denied = True
    tokens_of(sasl_jaas_config=f"{JAAS} awsDebugCreds=true;")()
    assert "somebody unknown (ClientError)" in caplog.text
    assert SECRET not in caplog.text


def test_without_credentials_the_error_says_where_they_were_looked_for():
    with pytest.raises(AuthenticationError, match=r"AWS_ACCESS_KEY_ID.*~/.aws/credentials.*instance's role"):
        tokens_of()()


def test_an_incomplete_profile_is_named(environment, tmp_path):
    (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id = {KEY}\n")
    with pytest.raises(AuthenticationError, match="Partial credentials found in shared-credentials-file"):
        tokens_of()()


def test_the_text_of_an_external_process_is_not_shown(environment, tmp_path):
    script = tmp_path / "process.py"
    script.write_text(f"import sys; sys.exit({SECRET!r})")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    with pytest.raises(AuthenticationError, match=r"not available: CredentialRetrievalError$") as caught:
        tokens_of()()
    assert SECRET not in str(caught.value)


def test_what_else_goes_wrong_in_awss_package_is_named_without_its_text(environment, tmp_path):
    (tmp_path / "config").write_text(f"[default]\ncredential_process = echo {SECRET}\n")
    with pytest.raises(AuthenticationError, match=r"are not available: JSONDecodeError$") as caught:
        tokens_of()()
    assert caught.value.__context__ is None
    assert places_of(SECRET, caught.value) == []
    environment.setenv("AWS_ROLE_ARN", ROLE)
    environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "jwt"))
    with pytest.raises(AuthenticationError, match=r": FileNotFoundError: No such file or directory: /.*jwt$"):
        tokens_of()()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"bootstrap_servers": "kafka.example.com:9098"}, "sasl_aws_region is missing.*kafka.example.com"),
        ({"sasl_aws_region": "Frankfurt"}, "sasl_aws_region: expected a region such as"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "security_protocol: expected SASL_SSL with sasl_mechanism"),
        ({"sasl_jaas_config": f'{JAAS} awsProfileName="none";'}, r"config profile \(none\) could not be"),
        ({"sasl_jaas_config": f"{JAAS} awsProfile={SECRET};"}, "'awsProfile' of IAMLoginModule is unknown"),
        ({"sasl_jaas_config": f"{JAAS} awsRoleSessionName=x;"}, "needs 'awsRoleArn'"),
        ({"sasl_jaas_config": f"{ROLE_JAAS} awsProfileName=x;"}, "contradict each other"),
        ({"sasl_jaas_config": f"{ROLE_JAAS} awsRoleSecretAccessKey={SECRET};"}, "belong together"),
        ({"sasl_jaas_config": "a.PlainLoginModule required;"}, "login modules.*IAMLoginModule"),
        ({"sasl_plain_username": "alice"}, "sasl_plain_username cannot be used with"),
        ({"sasl_client_callback_handler_class": "com.example.Own"}, "sasl_client_callback_handler_class"),
    ],
)
def test_contradictions_are_refused_before_any_connection(settings, complaint):
    with pytest.raises(ConfigError, match=complaint) as caught:
        mechanism_of(**settings)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_java_clients_settings_are_understood(environment):
    set_keys(environment)
    config = ProducerConfig.from_dotted(
        {
            "bootstrap.servers": BROKER,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{JAAS};",
            "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }
    )
    assert isinstance(sasl_mechanism_of(config), OAuthBearerMechanism)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match=r"pip install 'kproducer\[msk\]'"):
        mechanism_of()


def test_no_repr_shows_a_secret(environment):
    jaas = f'{ROLE_JAAS} awsRoleAccessKeyId="{KEY}" awsRoleSecretAccessKey="{SECRET}";'
    mechanism = mechanism_of(sasl_jaas_config=jaas)
    assert SECRET not in repr(mechanism) + repr(mechanism._tokens._provider)
    assert aws_msk_iam_mechanism("eu-west-1", (), {}, lambda: None).identity == "AWS_MSK_IAM credentials"
