"""Text that somebody else wrote, made fit for a line of an error or a log.

Brokers send messages, host names, racks and a cluster id. A line break in one of them would look like a log
entry of its own, and an escape sequence would be carried out by the terminal that shows it. Source: ours.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with what is not printable as Python writes it in literals: ``\n``, ``\x1b``, ``\u202e``.

    Line breaks of all kinds, control characters, changes of direction and lone surrogates; spaces and letters
    of all languages stay. Text without any comes back as it is.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])
