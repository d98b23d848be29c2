"""Compresses wheels with zopfli: ``python -m build_tools.recompress_wheels WHEEL...``.

Needs the package zopflipy. Zopfli writes the format of zlib, which every installer reads, and takes a minute
where zlib takes a second. The files, their order, times and permissions stay, so RECORD stays valid. The same
wheel always gives the same result.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path


def recompress(wheel: Path) -> None:
    """Replace the wheel by one with the same files in fewer bytes.

    Raises:
        zipfile.BadZipFile: the wheel is damaged; it stays as it is.
    """
    import zopfli  # not at the top: where there is no zopflipy, tests import this

    smaller = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zopfli.ZipFile(smaller, "w") as new:
        for file in old.infolist():
            new.writestr(file, old.read(file))
    os.replace(smaller, wheel)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        recompress(Path(name))
