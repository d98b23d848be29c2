"""What a spec may not say although it reads well."""

from __future__ import annotations

from codegen.errors import Problem
from codegen.model import MessageSpec


def check(spec: MessageSpec) -> list[Problem]:
    """All problems of one message, in the order of their lines."""
    return []
