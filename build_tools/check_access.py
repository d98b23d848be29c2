"""Checks that no package of kproducer uses private attributes of another one, or the parts of the engine.

A private attribute of an object (``record._index``) may be used in the folder that defines the name, unless
the class of the object was imported from elsewhere. The class is known where an annotation or a constructor
in the module tells it. Each module directly in ``kproducer/`` is a package of its own. (Ruff's SLF001 does
not fit: it also refuses these accesses between two classes of a module.)

Outside of ``kproducer/_core/engine``, an engine is asked by its methods, and by the attributes in
``_OPEN_PARTS``.

    python -m build_tools.check_access [FOLDER]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Private names of libraries, and why there is no other way.
_LIBRARY_NAMES = {
    "_SSLContext": "ssl: its class, for an object that the native code of TLS can use",
    "_SSLSocket": "ssl: the class of _sslobj, in which the native code of TLS finds the connection",
    "_getframe": "sys: where a warning comes from",
    "_sslobj": "ssl: the connection of an SSLSocket, or the memory BIO that it reads",
}
#: Documented methods of named tuples.
_NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
_ENGINE = Path("_core", "engine")
#: What others may use of ``ProducerEngine``, beside its methods.
_OPEN_PARTS = {"admission", "call_times", "clock", "config", "topics"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _definitions(tree: ast.AST) -> Iterator[str]:
    """Every private name that a module defines: in a class, on ``self``, or as a function or variable."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            yield node.attr
        elif isinstance(node, ast.Assign) and "__slots__" in map(ast.unparse, node.targets):
            yield from (str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant))


def _is_own(receiver: ast.expr) -> bool:
    """``self``, ``cls`` or ``super()``."""
    return ast.unparse(receiver) in ("self", "cls", "super()")


class _Module:
    """One module and the classes of its variables, as far as they are written in it.

    Args:
        name: dotted.
        folder: its package, dotted.
        tree: its source.
    """

    def __init__(self, name: str, folder: str, tree: ast.Module) -> None:
        self.name = name
        self.folder = folder
        self.tree = tree
        #: From which module each name was imported.
        self.imported = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        #: The innermost function around each node, and the class of each of its parameters.
        self._functions: dict[ast.AST, ast.AST] = {}
        self._parameters: dict[ast.AST, dict[str, str]] = {}
        #: Classes by variable or attribute of ``self``; with several of them, it is unknown.
        self._classes: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._functions |= dict.fromkeys(ast.walk(node), node)
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                self._parameters[node] = {
                    each.arg: _class_name(each.annotation) for each in arguments if each.annotation
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign):
                self._note(node.target, _class_name(node.annotation))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._note(node.targets[0], _class_name(node.value.func))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                self._note(node.targets[0], self._parameter(node.value) or "")

    def _note(self, variable: ast.expr, kind: str) -> None:
        if kind:
            self._classes.setdefault(ast.unparse(variable), set()).add(kind)

    def _parameter(self, variable: ast.expr) -> str | None:
        function = self._functions.get(variable)
        return self._parameters[function].get(ast.unparse(variable)) if function is not None else None

    def origin(self, receiver: ast.expr) -> str | None:
        """The module from which the class of an expression was imported; ``None``: from here, or unknown."""
        text = ast.unparse(receiver.func if isinstance(receiver, ast.Call) else receiver)
        parameter = self._parameter(receiver)
        kinds = {parameter} if parameter is not None else self._classes.get(text, {text})
        origins = {self.imported.get(kind.partition(".")[0]) for kind in kinds}
        return origins.pop() if len(origins) == 1 else None


def _class_name(annotation: ast.expr) -> str:
    text = str(annotation.value) if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return text.removesuffix(" | None").partition("[")[0]


def _package(module: str) -> str:
    """The folder of a module; each module directly in ``kproducer`` is one of its own."""
    return module if module.count(".") < 2 else module.rpartition(".")[0]


def _is_engine(receiver: ast.expr) -> bool:
    """By its name, such as ``self.engine``, ``engine`` or ``lifecycle.running_engine()``."""
    called = receiver.func if isinstance(receiver, ast.Call) else receiver
    return ast.unparse(called).rpartition(".")[2].endswith("engine")


def _parts_of_engine(tree: ast.Module) -> set[str]:
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value)
    }
    return stored - _OPEN_PARTS


def violations(root: Path) -> Iterable[str]:
    """Where the modules below a folder break the rules: "file:line: text"."""
    modules: dict[Path, _Module] = {}
    defined: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        # A package's own __init__ belongs to it.
        folder = name if parts[-1] == "__init__" else _package(name)
        modules[path] = module = _Module(name, folder, ast.parse(path.read_text()))
        defined.setdefault(folder, set()).update(filter(_is_private, _definitions(module.tree)))
    engine = modules.get(root / _ENGINE / "producer_engine.py")
    engine_parts = set() if engine is None else _parts_of_engine(engine.tree)
    for path, module in modules.items():
        folder = module.folder
        is_of_engine = path.is_relative_to(root / _ENGINE)
        for node in ast.walk(module.tree):
            problem = None
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(root.name):
                private = [alias.name for alias in node.names if _is_private(alias.name)]
                if private and folder not in (node.module, _package(node.module or "")):
                    problem = f"imports {', '.join(private)} of another package, {node.module}"
            elif isinstance(node, ast.Attribute) and not _is_own(node.value):
                text = ast.unparse(node)
                if _is_private(node.attr) and node.attr not in {*_LIBRARY_NAMES, *_NAMED_TUPLE}:
                    origin = module.origin(node.value)
                    if node.attr not in defined[folder]:
                        problem = f"{text}: private in another package; give that a method or a function"
                    elif origin is not None and _package(origin) != folder:
                        problem = f"{text}: private in {origin}; give that a method or a function"
                elif node.attr in engine_parts and not is_of_engine and _is_engine(node.value):
                    problem = f"{text}: a part of the engine; give ProducerEngine a method, or use Admission"
            if problem is not None and isinstance(node, ast.stmt | ast.expr):
                yield f"{path.relative_to(root.parent)}:{node.lineno}: {problem}"


def main() -> int:
    """Print what is wrong; the status is 1 if anything is."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "kproducer"
    found = list(violations(root))
    print("\n".join(found) if found else "Private attributes are used in their packages only.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
