"""Hides the installed module of this name: ``format("kproducer")`` is the sink with traps."""

from tests.support.spark.exactly_once_source import TrappedSource


class DefaultSource(TrappedSource):
    """``kproducer`` with traps, for programs that do not register a format."""

    @classmethod
    def name(cls) -> str:
        return "kproducer"
