"""Tokens that AWS STS issues for the AWS credentials of the process (``GetWebIdentityToken``).

botocore finds the credentials, as for every AWS client, also those of a web identity (``AWS_ROLE_ARN`` and
``AWS_WEB_IDENTITY_TOKEN_FILE``). The parameters are those of confluent-kafka, and lead to the same request.
Source: AWS STS API reference; confluent-kafka's docs/oauthbearer-aws.md (2.15).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.config.setting import shown_url
from kproducer._core.runtime.extra_packages import need_package
from kproducer._core.security.bounded_aws_calls import BoundedAwsCalls, reason_of
from kproducer._core.security.endpoint_settings import checked_url
from kproducer._core.security.oauth_tokens import OAuthToken, RetriableTokenError
from kproducer._core.security.sasl_mechanisms import shown_text
from kproducer._core.security.token_endpoint import RETRIABLE_STATUSES
from kproducer.errors import AuthenticationError, ConfigError, printable

_WHERE = "sasl_oauthbearer_config"
_PARAMETERS = ("region", "audience", "duration_seconds", "signing_algorithm", "sts_endpoint", "aws_debug")
_TAG = "tag_"
_MOST_TAGS = 50
_ATTEMPTS = 3


def aws_web_identity(parameters: Mapping[str, str], config: ProducerConfig) -> WebIdentityTokens:
    """Check the parameters. No network.

    Args:
        parameters: of ``sasl_oauthbearer_config``.
        config: with the timeouts.

    Raises:
        ConfigError: botocore is missing, or a parameter is missing, unknown or wrong.
    """
    for name in parameters:
        if name not in _PARAMETERS and not (name.startswith(_TAG) and name != _TAG):
            raise _mistake(f"one of {', '.join(_PARAMETERS)}, {_TAG}NAME", repr(printable(name)))
    for name in ("region", "audience"):
        if not parameters.get(name):
            raise ConfigError(f"{_WHERE}: {name} is missing: aws_iam needs region=REGION,audience=AUDIENCE")
    duration = parameters.get("duration_seconds", "300")
    if not (re.fullmatch("[0-9]{2,4}", duration) and 60 <= int(duration) <= 3600):
        raise _mistake("duration_seconds from 60 to 3600")
    algorithm = parameters.get("signing_algorithm", "ES384")
    if algorithm not in ("ES384", "RS256"):
        raise _mistake("signing_algorithm=ES384 or RS256")
    endpoint = parameters.get("sts_endpoint")
    if endpoint is not None and checked_url(endpoint, f"{_WHERE}: sts_endpoint")[0] == "file":
        raise _mistake("an sts_endpoint with https")
    tags = {name[len(_TAG) :]: value for name, value in parameters.items() if name.startswith(_TAG)}
    if len(tags) > _MOST_TAGS:
        raise _mistake(f"at most {_MOST_TAGS} tags")
    if parameters.get("aws_debug", "none").lower() != "none":
        raise _mistake("aws_debug=none (botocore would log the tokens)")
    need_package("sasl_oauthbearer_metadata_authentication_type=aws_iam", "boto3", "botocore.session", "msk")
    request = {
        "Audience": [parameters["audience"]],
        "SigningAlgorithm": algorithm,
        "DurationSeconds": int(duration),
    }
    if tags:
        request["Tags"] = [{"Key": name, "Value": value} for name, value in tags.items()]
    return WebIdentityTokens(parameters["region"], endpoint, request, config)


def _mistake(expected: str, found: str = "another value (not shown)") -> ConfigError:
    return ConfigError(f"{_WHERE}: expected {expected}, got {found}")


@attrs.define(eq=False, repr=False)
class WebIdentityTokens:
    """Asks AWS STS for a token with each call. One thread at a time.

    Args:
        region: of STS.
        endpoint: its URL; ``None``: the region's.
        request: parameters of ``GetWebIdentityToken``.
        config: with the timeouts.
        source: the setting that names STS.
    """

    _region: str
    _endpoint: str | None
    _request: Mapping[str, Any]
    _config: ProducerConfig
    _source: str = _WHERE
    _calls: BoundedAwsCalls = attrs.field(init=False, factory=BoundedAwsCalls)

    @property
    def where(self) -> str:
        """STS in words, with the setting that names it."""
        place = f"region {self._region}" if self._endpoint is None else shown_url(self._endpoint)
        return f"AWS STS, {place} ({self._source})"

    def renamed(self, new_name: Callable[[str], str]) -> WebIdentityTokens:
        """The same with another name of the setting in errors."""
        return attrs.evolve(self, source=new_name(self._source))

    def __call__(self) -> OAuthToken:
        """Request a token.

        Raises:
            RetriableTokenError: STS cannot be reached, or answers 408, 429 or 5xx.
            AuthenticationError: there are no credentials, STS refuses, or botocore is too old.
        """
        from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, SSLError

        try:
            token: OAuthToken = self._calls(self._ask)
            return token
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            is_retriable = status >= 500 or status in RETRIABLE_STATUSES
            said = error.response.get("Error", {})
            # STS explains a wrong signature with the request, which has the session token.
            text = "" if said.get("Code") == "SignatureDoesNotMatch" else f": {said.get('Message')}"
            failure = f"{self.where} answered with HTTP status {status}: {said.get('Code')}{text}"
        except AuthenticationError:
            raise
        except Exception as error:
            failure = f"{self.where} has not given a token: {reason_of(error)}"
            is_unreachable = isinstance(error, (ConnectionError, HTTPClientError))
            is_retriable = is_unreachable and not isinstance(error, SSLError)
        # Raised without a cause: botocore's functions have the credentials in their variables.
        raise (RetriableTokenError if is_retriable else AuthenticationError)(shown_text(failure))

    def _ask(self) -> OAuthToken:
        import botocore.session
        from botocore.config import Config

        # A new session, because keys may have been replaced in the environment or in a file.
        session = botocore.session.Session()
        session.set_config_variable("region", self._region)
        client = session.create_client(
            "sts",
            endpoint_url=self._endpoint,
            config=Config(
                connect_timeout=self._config.sasl_login_connect_timeout_ms / 1000,
                read_timeout=self._config.sasl_login_read_timeout_ms / 1000,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            ),
        )
        if not hasattr(client, "get_web_identity_token"):
            raise AuthenticationError(f"{self.where}: aws_iam needs botocore 1.42.25 or a later version")
        answer = client.get_web_identity_token(**self._request)
        return OAuthToken(answer["WebIdentityToken"], answer["Expiration"].timestamp())
