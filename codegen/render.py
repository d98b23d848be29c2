"""From plans to source text: passes values to the templates in templates/ and formats the result.

Output is deterministic: sorted where the spec gives no order, no dates, no absolute paths.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import jinja2

from codegen.classes import ClassPlan
from codegen.layouts import layout_of
from codegen.model import MessageSpec, MessageType
from codegen.naming import snake_case
from codegen.plan import CodecPlan, ModulePlan, plan_module

_HERE = Path(__file__).parent
_WIDTH = 110
_ARTICLES = {
    MessageType.REQUEST: "a request",
    MessageType.RESPONSE: "a response",
    MessageType.HEADER: "a header",
    MessageType.DATA: "a data structure",
    MessageType.METADATA: "a metadata record",
    MessageType.COORDINATOR_KEY: "the key of a coordinator record",
    MessageType.COORDINATOR_VALUE: "the value of a coordinator record",
}
#: Modules that are copied from runtime/ into a generated package.
_RUNTIME = ("_decoders.py", "_index.py", "_keyed.py", "_native.pyi", "_native.pyx", "_plain.py", "_wire.py")
_WIRE = (_HERE / "runtime" / "_wire.py").read_text()
#: Names that a generated module may need from _wire, in the order of their import.
_WIRE_NAMES = tuple(
    sorted(
        {
            *re.findall(r"^(?:def|class) ([A-Za-z]\w*)", _WIRE, re.M),
            *re.findall(r"^([A-Z]\w*)(?:: Any)? = ", _WIRE, re.M),
        }
    )
)
#: The start of the loop of a list function.
_EACH = "        for item in "
#: Other lines that a generated module needs only if it uses a name.
_OPTIONAL = (
    ("Iterable", "from collections.abc import Iterable\n"),
    ("UUID", "from uuid import UUID\n"),
    ("Any", "Any, "),
    ("KeyedList", "from ._keyed import KeyedList\n"),
    ("repeat", "from itertools import repeat\n"),
    ("attrgetter", "from operator import attrgetter\n"),
)


def render_package(specs: Iterable[MessageSpec], source: str) -> dict[str, str]:
    """The files of a generated package.

    Args:
        specs: checked messages.
        source: the name of the specs' folder for the headers.

    Returns:
        File name to text, sorted by name.
    """
    environment = _environment()
    modules = [plan_module(spec) for spec in sorted(specs, key=lambda spec: spec.name)]
    files = {f"{module.name}.py": _render_module(environment, module, source) for module in modules}
    files["__init__.py"] = _render_init(environment, modules, source)
    files.update({name: _copied(f"runtime/{name}") for name in _RUNTIME})
    files["py.typed"] = ""
    return dict(sorted(files.items()))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["attribute_doc"] = _attribute_doc
    environment.filters["layout"] = _layout_entry
    environment.filters["steps"] = _spaced_steps
    environment.filters["default_constant"] = lambda name: f"_DEFAULT_{snake_case(name).upper()}"
    return environment


def _header(origin: str, sha256: str) -> str:
    return "\n".join(
        [
            f"# DO NOT EDIT: generated from {origin} (python -m codegen SPEC_DIR OUT_DIR).",
            f"# sha256 of the source: {sha256}",
        ]
    )


def _render_module(environment: jinja2.Environment, module: ModulePlan, source: str) -> str:
    spec = module.message
    valid = spec.valid_versions
    flexible = valid & spec.flexible_versions
    text = environment.get_template("module.py.j2").render(
        header=_header(f"{source}/{Path(spec.path).name}", spec.sha256),
        module=module,
        kind=_ARTICLES[spec.type] + ("" if spec.api_key is None else f" of API {spec.api_key}"),
        versions_text=_versions_text(spec),
        summaries={plan.name: _summary(plan, module) for plan in module.classes},
        exported=sorted(name for plan in module.classes for name in (plan.name, plan.collection) if name),
        flexible_range=f"range({flexible.lowest}, {flexible.highest + 1})" if flexible else "range(0)",
        range_arguments=f"{valid.lowest}, {valid.highest}",
        imports=["@imports@"],
    )
    return _tidy(_fill_imports(text))


def _versions_text(spec: MessageSpec) -> str:
    text = f"versions {spec.valid_versions}" if spec.valid_versions else "no version may be sent"
    if flexible := spec.valid_versions & spec.flexible_versions:
        text += f", flexible {flexible}"
    return text


def _summary(plan: ClassPlan, module: ModulePlan) -> str:
    if plan is module.classes[-1]:
        return f"{_ARTICLES[module.message.type].capitalize()}. Not thread-safe: plain data."
    return f"Part of {module.message_class}."


def _render_init(environment: jinja2.Environment, modules: list[ModulePlan], source: str) -> str:
    digest = hashlib.sha256("".join(module.message.sha256 for module in modules).encode()).hexdigest()
    requests = _by_key(modules, MessageType.REQUEST)
    responses = _by_key(modules, MessageType.RESPONSE)
    names = {
        key: re.sub(r"(Request|Response)$", "", module.message.name) for key, module in requests + responses
    }
    errors = ["CodecError", "DecodeError", "EncodeError", "API_NAMES", "REQUESTS", "RESPONSES", "ZERO_UUID"]
    text = environment.get_template("init.py.j2").render(
        header=_header(source, digest),
        modules=modules,
        exported=sorted([*errors, *(module.message_class for module in modules)]),
        api_names=sorted(names.items()),
        requests=requests,
        responses=responses,
    )
    return _tidy(text)


def _by_key(modules: list[ModulePlan], kind: MessageType) -> list[tuple[int, ModulePlan]]:
    return sorted(
        (
            (module.message.api_key, module)
            for module in modules
            if module.message.type is kind and module.message.api_key is not None
        ),
        key=lambda pair: pair[0],
    )


def _copied(name: str) -> str:
    data = (_HERE / name).read_bytes()
    return f"{_header('codegen/' + name, hashlib.sha256(data).hexdigest())}\n{data.decode()}"


def _attribute_doc(name: str, about: str) -> str:
    text = f"{name}: {about}".replace("\\", "\\\\").replace('"""', "'''")
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)


def _layout_entry(codec: CodecPlan, module: ModulePlan) -> str:
    """An entry of ``_LAYOUTS``, on one or more lines."""
    struct = next(plan for plan in module.classes if plan.name == codec.class_name)
    collection = struct.collection or "list"
    text = layout_of(codec.decode)
    line = f'    "{codec.functions}": ({struct.name}, {collection}, "{text}"),'
    if len(line) <= _WIDTH:
        return line
    pieces = textwrap.wrap(text, _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    lines = [f'        "{piece} "' for piece in pieces[:-1]] + [f'        "{pieces[-1]}",']
    return "\n".join(
        [f'    "{codec.functions}": (', f"        {struct.name},", f"        {collection},", *lines, "    ),"]
    )


def _fill_imports(text: str) -> str:
    """Import only the names that the rendered module uses."""
    words = set(re.findall(r"\w+", text.split("@imports@", 1)[1]))
    used = [name for name in _WIRE_NAMES if name in words]
    text = text.replace("    @imports@,\n", "".join(f"    {name},\n" for name in used))
    for name, line in _OPTIONAL:
        if name not in words:
            text = text.replace(line, "", 1)
    return text


def _spaced_steps(function: str) -> str:
    """A function with one blank line before each step (it starts by setting ``at``) and no other."""
    lines: list[str] = []
    step = " " * (12 if "_list(" in function.split("\n", 1)[0] else 8) + 'at = "'
    for line in function.splitlines():
        if line.strip():
            is_first = lines and (lines[-1].strip() == "try:" or lines[-1].startswith(_EACH))
            lines += ["", line] if line.startswith(step) and not is_first else [line]
    return "\n".join(lines)


def _tidy(text: str) -> str:
    """No trailing blanks, at most two blank lines in a row, no line too long, one newline at the end."""
    tidy: list[str] = []
    for line in text.splitlines():
        line = line.rstrip()
        if line or not tidy or tidy[-1] or (len(tidy) > 1 and tidy[-2]):
            tidy += _wrapped(line)
    return "\n".join(tidy).strip("\n") + "\n"


def _wrapped(line: str) -> list[str]:
    """Break a long definition, struct call or assignment as a formatter would."""
    if len(line) <= _WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    inner = indent + "    "
    if match := re.fullmatch(r"( *def \w+\()(.*)(\) -> .*:)", line):
        return [match[1], inner + match[2], indent + match[3]]
    if match := re.fullmatch(r" *(@attrs.define\(|\w+: [\w \[\]|.]+ = attrs.field\()(.*)\)", line):
        one_line = inner + match[2]
        arguments = [one_line] if len(one_line) <= _WIDTH else [f"{inner}{a}," for a in match[2].split(", ")]
        return [indent + match[1], *arguments, f"{indent})"]
    if match := re.fullmatch(r" *([\w., ]+, [\w.]+)( = \w+\.unpack_from\(buffer, position\))", line):
        targets = [f"{inner}{target}," for target in match[1].split(", ")]
        return [f"{indent}(", *targets, f"{indent}){match[2]}"]
    if match := re.fullmatch(r" *(\w+\.pack_into\()(.*)\)", line):
        arguments = [f"{inner}{argument}," for argument in match[2].split(", ")]
        return [indent + match[1], *arguments, f"{indent})"]
    return [line]
