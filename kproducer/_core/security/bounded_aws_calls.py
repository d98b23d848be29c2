"""Calls of AWS's packages: bounded in time, and described without secrets if they fail.

The timeouts of these packages are for connecting and for single reads; external processes
(``credential_process``) have none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final

from kproducer._core.security.sasl_mechanisms import shown_text
from kproducer.errors import AuthenticationError

#: How long to wait for an answer.
LONGEST_S: Final = 120.0
#: How many calls may still wait after they were given up. With that many, none is begun.
MOST_UNANSWERED: Final = 4


class BoundedAwsCalls:
    """Runs each call on a thread of its own, and gives up those that take too long. One thread may call."""

    def __init__(self) -> None:
        self._unanswered: list[threading.Thread] = []

    def __call__(self, ask: Callable[[], Any]) -> Any:
        """What the function returns or raises. Raises AuthenticationError: it does not end in time."""
        self._unanswered = [thread for thread in self._unanswered if thread.is_alive()]
        if len(self._unanswered) >= MOST_UNANSWERED:
            raise _no_answer(f"{MOST_UNANSWERED} requests within {LONGEST_S:g} s each, and they still wait")
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)

        thread = threading.Thread(target=run, name="kproducer-aws", daemon=True)
        thread.start()
        wait([answer], LONGEST_S)
        if not answer.done():
            self._unanswered.append(thread)
            raise _no_answer(f"within {LONGEST_S:g} s")
        return answer.result()


def reason_of(error: Exception) -> str:
    """Why a call failed, in words. The error is not for users: the variables of its frames have secrets."""
    from botocore.exceptions import BotoCoreError, ClientError

    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f": {error.filename}"
        return shown_text(f"{kind}: {error.strerror}{place}")
    # STS explains a wrong signature with the request, which has the session token. The text of an external
    # process, and that of another error, which may quote what such a process or STS said, may be secret, too.
    if isinstance(error, ClientError):
        is_shown = error.response.get("Error", {}).get("Code") != "SignatureDoesNotMatch"
    else:
        is_shown = isinstance(error, BotoCoreError) and error.kwargs.get("provider") != "custom-process"
    return f"{kind}: {shown_text(str(error))}" if is_shown else kind


def _no_answer(what: str) -> AuthenticationError:
    return AuthenticationError(
        "the AWS credentials are not available: the credential_process of the profile, AWS STS or the"
        f" metadata service has not answered {what}"
    )
