"""The schemas that a schema refers to, directly or through others, within bounds.

A registry does not let a schema refer to one that it does not have yet, so references end. But an answer is
not trusted: without bounds, one in which each schema refers to a new one would keep a look-up busy.
"""

from __future__ import annotations

from kproducer.errors import SerializationError
from kproducer.schema_registry import answers, deadlines
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.schemas import Schema, SchemaReference

#: The most references of one schema. Each that is not in the client's cache costs a request; the cache has
#: room for as many by default.
MOST_REFERENCES = 1_000
#: How deep references may lead to references: the parsers of all formats call themselves for each level.
DEEPEST_REFERENCES = 100
#: The length of all texts together: four times that of a single answer, because all of them are kept in
#: memory.
MOST_CHARACTERS = 32 << 20


def referenced_schemas(
    schema: Schema, client: SchemaRegistryClient | None, fmt: str | None = None
) -> list[tuple[SchemaReference, Schema]]:
    """All schemas that a schema refers to, each after those that it refers to itself. Blocks.

    A reference that is found again (a cycle, or two ways to the same schema) is not followed again.

    Args:
        schema: the schema.
        client: of the registry that has the others.
        fmt: the form in which the registry should send them; ``None``: as they are.

    Raises:
        SerializationError: there is no client, or there are more than 1,000 references, or more than 100
            within each other, or their texts have more than 32 Mi characters.
        SchemaRegistryError: the registry does not have a schema, or is not reachable.
    """
    if not schema.references:
        return []
    if client is None:
        raise SerializationError(
            f"the schema refers to {schema.references[0].subject!r}, but no SchemaRegistryClient was given"
        )
    found: list[tuple[SchemaReference, Schema]] = []
    seen: set[SchemaReference] = set()
    characters = 0

    def follow(around: Schema, depth: int) -> None:
        nonlocal characters
        for reference in around.references:
            if reference in seen:
                continue
            seen.add(reference)
            if len(seen) > MOST_REFERENCES or depth > DEEPEST_REFERENCES:
                raise SerializationError(
                    f"the schema has more than {MOST_REFERENCES} references, or more than "
                    f"{DEEPEST_REFERENCES} within each other; the next one is to the subject "
                    f"{answers.shown(reference.subject)}; check the references in the schema registry"
                )
            other = client.get_version(reference.subject, reference.version, deleted=True, fmt=fmt).schema
            characters += len(other.schema_str)
            if characters > MOST_CHARACTERS:
                raise SerializationError(
                    f"the schemas that the schema refers to have more than {MOST_CHARACTERS} characters "
                    f"together with that of subject {answers.shown(reference.subject)}; check them in the "
                    "schema registry"
                )
            follow(other, depth + 1)
            found.append((reference, other))

    with deadlines.within(client.max_block_ms / 1000):
        follow(schema, 1)
    return found
