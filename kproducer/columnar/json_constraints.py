"""Constraints: what a JSON Schema certainly says about one place, as far as the types of columns can answer.

Follows references, ``allOf``, ``anyOf`` and ``oneOf``, and looks at types, properties and items. Everything
else (values, patterns, conditions) counts as fulfilled. Source: JSON Schema, drafts 7 and 2020-12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

#: A schema, and the name of the document that contains it.
_Placed: TypeAlias = "tuple[str, Any]"
#: Schemas that apply together.
_Alternative: TypeAlias = "tuple[_Placed, ...]"

#: With more alternatives, or a deeper nesting of them, a schema is not checked.
_MOST_ALTERNATIVES: Final = 64
_DEEPEST: Final = 16
#: The most schemas that are looked at for one place, because references may lead to the same ones again and
#: again.
_MOST_SCHEMAS: Final = 10_000
#: The most digits of an index in a reference.
_MOST_DIGITS: Final = 9
_TYPES_OF_CONSTANTS: Final[dict[type, frozenset[str]]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"integer", "number"}),
    str: frozenset({"string"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}


class ViolatedError(Exception):
    """A type contradicts a schema. Its text continues a sentence that begins with the place."""


class Constraints(NamedTuple):
    """The schemas that apply to one place.

    Attributes:
        documents: the schema, with an empty name, and those that it refers to.
        alternatives: one of them applies. Those of the schema ``true`` are one without schemas.
    """

    documents: Mapping[str, Any]
    alternatives: tuple[_Alternative, ...]

    @classmethod
    def of(cls, contents: Any, references: Mapping[str, Any]) -> Constraints:
        """The constraints of a whole schema.

        Args:
            contents: the schema.
            references: others, by the names that it uses for them.
        """
        found = cls({**references, "": contents}, ())
        return found._replace(alternatives=tuple(found._expanded(("", contents), 0, count(1))))

    def exclude(self, kind: str) -> bool:
        """Whether values of a type certainly do not fit."""
        return all(
            any(_violation(schema, kind) for _, schema in alternative) for alternative in self.alternatives
        )

    @property
    def properties(self) -> frozenset[str]:
        """The properties that a schema names."""
        return frozenset(
            name
            for alternative in self.alternatives
            for _, schema in alternative
            for name in _dictionary(schema, "properties")
        )

    def require(self, name: str) -> bool:
        """Whether an object certainly needs a property."""
        return all(
            any(name in _required(schema) for _, schema in alternative) for alternative in self.alternatives
        )

    def narrowed(self, kind: str, names: Collection[str] | None = None) -> Constraints:
        """What applies to values of one type.

        Args:
            kind: the type, as JSON Schema calls it.
            names: the properties of an object; ``None``: not known.

        Raises:
            ViolatedError: no alternative allows it.
        """
        fitting = []
        problems = []
        for alternative in self.alternatives:
            found = [_violation(schema, kind) for _, schema in alternative]
            if kind == "object" and names is not None and not any(found):
                found = [_wrong_property(schema, names) for _, schema in alternative]
            problem = next(filter(None, found), None)
            if problem is None:
                fitting.append(alternative)
            else:
                problems.append(problem)
        if not fitting:
            # Problems within objects come first: they say more than that another type was expected.
            problems.sort(key=lambda problem: problem.startswith("is "))
            raise ViolatedError(problems[0] if problems else "is excluded by the schema false")
        return self._replace(alternatives=tuple(fitting))

    def of_member(self, name: str | None) -> Constraints:
        """The constraints of a property; ``None``: of any property of a map, whose names are not known."""
        return self._below(lambda schema: _property_schema(schema, name))

    def of_elements(self) -> Constraints:
        """The constraints of the elements of an array."""
        return self._below(lambda schema: True if "prefixItems" in schema else _schema(schema.get("items")))

    def _below(self, find: Any) -> Constraints:
        found = []
        numbers = count(1)
        for alternative in self.alternatives:
            product: list[_Alternative] = [()]
            for document, schema in alternative:
                product = _product(product, self._expanded((document, find(schema)), 0, numbers))
            found += product
        if len(found) > _MOST_ALTERNATIVES:
            found = [()]
        return self._replace(alternatives=tuple(found))

    def _expanded(self, placed: _Placed, depth: int, numbers: Iterator[int]) -> list[_Alternative]:
        """The alternatives of one schema, without references and combinations.

        Args:
            placed: the schema.
            depth: of references and combinations around it.
            numbers: counts the schemas that are looked at.
        """
        document, schema = placed
        if schema is False:
            return []
        if not isinstance(schema, dict) or depth > _DEEPEST or next(numbers) > _MOST_SCHEMAS:
            return [()]
        if "$ref" in schema:
            # Draft 7 ignores what stands beside it.
            return self._expanded(self._referred(document, schema["$ref"]), depth + 1, numbers)
        alternatives: list[_Alternative] = [(placed,)]
        for part in _list(schema, "allOf"):
            alternatives = _product(alternatives, self._expanded((document, part), depth + 1, numbers))
        for combination in ("anyOf", "oneOf"):
            if parts := _list(schema, combination):
                either = [
                    each for part in parts for each in self._expanded((document, part), depth + 1, numbers)
                ]
                alternatives = _product(alternatives, either)
        return alternatives

    def _referred(self, document: str, reference: Any) -> _Placed:
        """What a reference leads to: a place in the same document, or another document. Else ``true``."""
        if not isinstance(reference, str):
            return document, True
        name, _, pointer = reference.partition("#")
        document = name or document
        schema = self.documents.get(document, True)
        for part in filter(None, unquote(pointer).split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            is_index = part.isdecimal() and len(part) <= _MOST_DIGITS
            if isinstance(schema, list) and is_index and int(part) < len(schema):
                schema = schema[int(part)]
            elif isinstance(schema, dict) and part in schema:
                schema = schema[part]
            else:
                return document, True
        return document, schema


#: Without a schema, everything is allowed.
UNCONSTRAINED: Final = Constraints({}, ((),))


def _product(ones: list[_Alternative], others: list[_Alternative]) -> list[_Alternative]:
    if len(ones) * len(others) > _MOST_ALTERNATIVES:
        return ones
    return [(*one, *other) for one in ones for other in others]


def _violation(schema: dict[str, Any], kind: str) -> str | None:
    """Why values of a type do not fit; ``None``: they may fit."""
    allowed = schema.get("type")
    if isinstance(allowed, (str, list)):
        names = [allowed] if isinstance(allowed, str) else allowed
        if kind not in names and not (kind == "integer" and "number" in names):
            return f"is not of the type {' or '.join(map(str, names))}"
    constants = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(constants, list) and not any(
        kind in _TYPES_OF_CONSTANTS.get(type(each), ()) for each in constants
    ):
        return f"is not among the values of the {'const' if 'const' in schema else 'enum'}"
    return None


def _wrong_property(schema: dict[str, Any], names: Collection[str]) -> str | None:
    known = _dictionary(schema, "properties")
    for name in _required(schema):
        if name not in names:
            return f"needs the property {name!r}"
    if schema.get("additionalProperties") is False and not _dictionary(schema, "patternProperties"):
        for name in names:
            if name not in known:
                listed = ", ".join(map(repr, known)) or "none"
                return f"cannot have the property {name!r}, only those of the schema ({listed})"
    return None


def _property_schema(schema: dict[str, Any], name: str | None) -> Any:
    known = _dictionary(schema, "properties")
    if name in known:
        return known[name]
    if _dictionary(schema, "patternProperties") or (name is None and known):
        return True
    return _schema(schema.get("additionalProperties"))


def _schema(found: Any) -> Any:
    return found if isinstance(found, (dict, bool)) else True


def _dictionary(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _required(schema: dict[str, Any]) -> Iterator[str]:
    return (name for name in _list(schema, "required") if isinstance(name, str))
