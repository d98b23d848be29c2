"""What settings mean: the docstrings of the attributes that declare them, read from the source.

Python does not keep such docstrings, and producers do not need them. The command ``kproducer config`` and
``make generate`` do.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from types import ModuleType


def meanings(module: ModuleType, class_name: str) -> dict[str, str]:
    """The meaning of each setting that a class declares, by attribute name, in their order.

    Args:
        module: the module of the class. The class itself may name another one (see ``public``).
        class_name: the name of the class.

    Raises:
        OSError: the source of the module is not installed.
    """
    classes = {
        each.name: each
        for each in ast.parse(inspect.getsource(module)).body
        if isinstance(each, ast.ClassDef)
    }
    found = {}
    for pair in pairwise(classes[class_name].body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
