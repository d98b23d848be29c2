"""AWS_MSK_IAM: tokens for Amazon MSK, signed with the AWS credentials of the process.

MSK accepts IAM credentials as a token of OAUTHBEARER, which AWS's signer creates: a URL signed with Signature
Version 4, valid for every broker of a region. botocore finds the credentials, as for every AWS client, and
keeps temporary ones fresh, so signing needs no request. All of it happens on the ``TokenSource``'s thread.
MSK's other mechanism, a JSON document signed for each broker, was rejected: AWS publishes a Python package
for tokens only, and one token serves all brokers.
Source: the package ``aws-msk-iam-sasl-signer-python``, and the options of Java's ``IAMLoginModule``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kproducer._core.runtime.extra_packages import need_package
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.security.bounded_aws_calls import BoundedAwsCalls, reason_of
from kproducer._core.security.oauth_tokens import TokenSource
from kproducer._core.security.sasl_mechanisms import OAuthBearerMechanism, shown_text
from kproducer.errors import AuthenticationError, ConfigError, printable

_log = GuardedLogger(__name__)

#: How long a token is used. Less than the 15 minutes for which the signature is valid, because a token is
#: useless when the temporary credentials that signed it have expired. EC2 replaces those five minutes ahead,
#: botocore refreshes others ten minutes ahead.
_TOKEN_LIFETIME_S: Final = 300.0
_SESSION_NAME = "kproducer"
_REGION = re.compile(r"[a-z]{2,5}(?:-[a-z]+)+-[0-9]+")

_PROFILE, _ROLE, _DEBUG = "awsProfileName", "awsRoleArn", "awsDebugCreds"
_ROLE_KEY, _ROLE_SECRET, _ROLE_TOKEN = "awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken"
#: Options that have a meaning only with a role.
_ROLE_OPTIONS = (
    "awsRoleSessionName",
    "awsRoleExternalId",
    "awsStsRegion",
    _ROLE_KEY,
    _ROLE_SECRET,
    _ROLE_TOKEN,
)
#: Options that say how often Java's class asks again. Here ``TokenSource`` decides that.
_IGNORED_OPTIONS = ("awsMaxRetries", "awsMaxBackOffTimeMs")


def aws_msk_iam_mechanism(
    region: str, bootstrap_servers: Sequence[str], options: Mapping[str, str], wakeup: Callable[[], object]
) -> OAuthBearerMechanism:
    """The mechanism for ``sasl_mechanism="AWS_MSK_IAM"``. Reads AWS's configuration files; no network.

    Args:
        region: ``sasl_aws_region``; empty: from the brokers' names, then the environment.
        bootstrap_servers: ``host:port``.
        options: of ``IAMLoginModule`` in ``sasl_jaas_config``.
        wakeup: see ``SaslMechanism``.

    Raises:
        ConfigError: a package, the region or the profile is missing, or options contradict each other.
    """
    _check_options(options)
    need_package(
        "sasl_mechanism=AWS_MSK_IAM", "aws-msk-iam-sasl-signer-python", "aws_msk_iam_sasl_signer", "msk"
    )
    provider = _SignedTokens(_region(region, bootstrap_servers), options)
    tokens = TokenSource(provider, wakeup, unanswered="AWS has not answered the request for credentials")
    return OAuthBearerMechanism(tokens, identity="AWS_MSK_IAM credentials")


def _check_options(options: Mapping[str, str]) -> None:
    where = "sasl_jaas_config: option"
    known = (_PROFILE, _ROLE, _DEBUG, *_ROLE_OPTIONS, *_IGNORED_OPTIONS)
    for name in options:
        if name not in known:
            raise ConfigError(
                f"{where} {printable(name)!r} of IAMLoginModule is unknown; it has {', '.join(known)}"
            )
    if _ROLE in options and _PROFILE in options:
        raise ConfigError(f"{where}s {_PROFILE!r} and {_ROLE!r} contradict each other; remove one of them")
    for name in _ROLE_OPTIONS:
        if name in options and _ROLE not in options:
            raise ConfigError(f"{where} {name!r} needs {_ROLE!r}; add it, or remove {name!r}")
    if (_ROLE_KEY in options) != (_ROLE_SECRET in options) or (
        _ROLE_TOKEN in options and _ROLE_KEY not in options
    ):
        raise ConfigError(f"{where}s {_ROLE_KEY!r} and {_ROLE_SECRET!r} belong together; one is missing")


def _region(given: str, bootstrap_servers: Sequence[str]) -> str:
    """The region, from the setting, the brokers' names or the environment. Raises ConfigError."""
    if given:
        if not _REGION.fullmatch(given):
            raise ConfigError(f"sasl_aws_region: expected a region such as 'eu-central-1', got {given!r}")
        return given
    hosts = [server.rpartition(":")[0] for server in bootstrap_servers]
    for host in hosts:
        labels = host.rstrip(".").split(".")
        # Brokers are called b-1.NAME.ID.c2.kafka.REGION.amazonaws.com, in China with .cn at the end.
        if "amazonaws" in labels:
            for label in reversed(labels):
                if _REGION.fullmatch(label):
                    return label
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if region := os.environ.get(name):
            return region
    raise ConfigError(
        f"sasl_aws_region is missing: the region of the cluster is not part of {', '.join(hosts)};"
        " set it, or the environment variable AWS_REGION"
    )


class _SignedTokens:
    """A ``sasl_oauth_token_provider``: signs a token with each call. One thread at a time."""

    def __init__(self, region: str, options: Mapping[str, str]) -> None:
        from botocore.exceptions import BotoCoreError

        self._region = region
        self._options = options
        #: A request that was given up may still set this when it ends: its credentials are valid, too.
        self._credentials: Any = None
        self._calls = BoundedAwsCalls()
        try:
            self._new_session().get_scoped_config()
        except BotoCoreError as error:
            raise ConfigError(f"sasl_mechanism=AWS_MSK_IAM: {shown_text(str(error))}") from None

    def __repr__(self) -> str:
        return f"_SignedTokens({self._region!r})"

    def __call__(self) -> tuple[str, float]:
        """Returns token and expiry. Raises AuthenticationError: there are no credentials to sign with."""
        from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import (
            generate_auth_token_from_credentials_provider,
        )
        from botocore.credentials import CredentialProvider

        try:
            credentials = self._calls(lambda: self._current_credentials().get_frozen_credentials())
        except AuthenticationError:
            self._credentials = None  # a request that hangs holds their lock
            raise
        except Exception as error:
            what, credentials = reason_of(error), None
        if credentials is None:
            # Raised without a cause: botocore's functions have the credentials in their variables.
            raise AuthenticationError(f"the AWS credentials are not available: {what}")
        provider = CredentialProvider()
        provider.load = lambda: credentials
        token, expiry_ms = generate_auth_token_from_credentials_provider(self._region, provider)
        return token, min(expiry_ms / 1000, time.time() + _TOKEN_LIFETIME_S)

    def _current_credentials(self) -> Any:
        from botocore.credentials import RefreshableCredentials

        # Temporary credentials refresh themselves. Others may have been replaced in the environment or in a
        # file, where looking again costs nothing.
        if not isinstance(self._credentials, RefreshableCredentials):
            self._credentials = self._new_credentials()
        return self._credentials

    def _new_session(self) -> Any:
        import botocore.session

        return botocore.session.Session(profile=self._options.get(_PROFILE))

    def _new_credentials(self) -> Any:
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            Credentials,
            DeferredRefreshableCredentials,
        )

        session, options = self._new_session(), self._options
        if _ROLE_KEY in options:
            credentials: Any = Credentials(
                options[_ROLE_KEY], options[_ROLE_SECRET], options.get(_ROLE_TOKEN), "sasl_jaas_config"
            )
        else:
            credentials = session.get_credentials()
        if credentials is None:
            profile = f"the profile {session.profile!r}" if session.profile else "the default profile"
            raise AuthenticationError(
                "no AWS credentials found in the environment variables AWS_ACCESS_KEY_ID and"
                f" AWS_SECRET_ACCESS_KEY, in {profile} of ~/.aws/credentials and ~/.aws/config, in a web"
                " identity token, in the container's or in the instance's role"
            )
        if _ROLE in options:
            sts_region = options.get("awsStsRegion", self._region)

            def create_client(service: str, **settings: Any) -> Any:
                return session.create_client(service, **{**settings, "region_name": sts_region})

            arguments = {"RoleSessionName": options.get("awsRoleSessionName", _SESSION_NAME)}
            if "awsRoleExternalId" in options:
                arguments["ExternalId"] = options["awsRoleExternalId"]
            fetcher = AssumeRoleCredentialFetcher(
                create_client, credentials, options[_ROLE], extra_args=arguments
            )
            credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
        if options.get(_DEBUG, "").lower() == "true":
            _log_identity(session, credentials, self._region)
        return credentials


def _log_identity(session: Any, credentials: Any, region: str) -> None:
    """Ask AWS whose credentials these are."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        frozen = credentials.get_frozen_credentials()
        client = session.create_client(
            "sts",
            region_name=region,
            aws_access_key_id=frozen.access_key,
            aws_secret_access_key=frozen.secret_key,
            aws_session_token=frozen.token,
        )
        identity = client.get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError) as error:
        identity = f"somebody unknown ({type(error).__name__})"
    _log.info("The AWS credentials (%s) belong to %s", credentials.method, shown_text(identity))
