"""BoundedAwsCalls: waits for AWS's packages, whose timeouts are for connecting and for single reads.

External processes (``credential_process``) have no timeout at all. One thread at a time may call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final

from kproducer.errors import AuthenticationError

#: How long to wait for an answer.
LONGEST_S: Final = 120.0
#: How many calls may still wait after they were given up. With that many, none is begun.
MOST_UNANSWERED: Final = 4


class BoundedAwsCalls:
    """Runs each call on a thread of its own, and gives up those that take too long."""

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


def _no_answer(what: str) -> AuthenticationError:
    return AuthenticationError(
        "the AWS credentials are not available: the credential_process of the profile, AWS STS or the"
        f" metadata service has not answered {what}"
    )
