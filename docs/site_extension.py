"""Sphinx extension of this site: pages and links outside of docs/, anchors in tables, and llms.txt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError

import kproducer
from kproducer import TopicPartition
from kproducer.errors import broker_errors

DOCS = Path(__file__).parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/kproducer/kproducer"
#: Pages whose text is a file of the repository's root.
ROOT_FILES = {
    "changelog": ROOT / "CHANGELOG.md",
    "contributing": ROOT / "CONTRIBUTING.md",
}
_TUPLE_FIELD = type(TopicPartition.topic)
_LINK_TARGET = re.compile(r"(?<=\]\()[^()#:\s]+(?=[#)])")


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the text of a root file's page, and the links of all pages to files outside of docs/."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    if docname in ROOT_FILES:
        path = ROOT_FILES[docname]
        app.env.note_dependency(str(path))
        source[0] = path.read_text(encoding="utf-8")
    page = DOCS / docname
    source[0] = _LINK_TARGET.sub(lambda found: _site_target(found[0], path.parent, page.parent), source[0])


def _site_target(target: str, folder: Path, page_folder: Path) -> str:
    """The link of a page for the link of a file in ``folder``; anything but a file stays as it is."""
    path = (folder / target).resolve()
    for docname, file in ROOT_FILES.items():
        if path == file:
            path = DOCS / f"{docname}.md"
    if not path.exists() or not path.is_relative_to(ROOT):
        return target
    if path.is_relative_to(DOCS):
        return Path(os.path.relpath(path, page_folder)).as_posix()
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path.relative_to(ROOT).as_posix()}"


def _name_cells(group: nodes.tgroup) -> None:
    """Put the name of its column into each cell, which narrow screens show in place of the table's head."""
    heads = [cell.astext() for head in group.findall(nodes.thead) for cell in head.findall(nodes.entry)]
    for row in (row for body in group.findall(nodes.tbody) for row in body.findall(nodes.row)):
        for name, cell in list(zip(heads, row.findall(nodes.entry), strict=False))[1:]:
            for paragraph in list(cell.findall(nodes.paragraph))[:1]:
                paragraph.insert(0, nodes.inline("", f"{name}: ", classes=["column"]))


def prepare_tables(app: Sphinx, doctree: nodes.document) -> None:
    """Name the cells; in the reference, make settings and errors targets of links and of the search."""
    for group in doctree.findall(nodes.tgroup):
        _name_cells(group)
    standard, python = app.env.domains.standard_domain, app.env.domains.python_domain
    docname = app.env.docname
    if docname not in ("reference/configuration", "reference/errors"):
        return
    for table in doctree.findall(nodes.table):
        table["classes"].append("reference")
    for row in doctree.findall(nodes.row):
        for name in (each.astext() for each in row.findall(nodes.literal)):
            if docname == "reference/configuration":
                row["ids"].append(name)
                standard.note_object("confval", name, name, location=row)
                break
            error: object = getattr(kproducer.errors, name, getattr(broker_errors, name, None))
            if isinstance(error, type):
                row["ids"].append(name)
                python.note_object(f"{error.__module__}.{name}", "exception", name, location=row)
                if hasattr(kproducer, name):
                    python.note_object(f"kproducer.{name}", "exception", name, True, location=row)
                break


def skip_tuple_fields(
    app: Sphinx, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of named tuples, which the docstrings of the classes describe."""
    return True if isinstance(member, _TUPLE_FIELD) else None


def write_llms_texts(app: Sphinx, error: Exception | None) -> None:
    """Write llms.txt (every page with a description) and llms-full.txt (the text of every page).

    Source: https://llmstxt.org, whose links may be relative.
    """
    if error is not None or app.builder.name != "html":
        return
    env = app.env
    index = [f"# {app.config.project}", "", f"> {_description(env.get_doctree('index'))}"]
    full = [*index]
    for tree in env.get_doctree("index").findall(toctree):
        pages = [docname for _, docname in tree["entries"]]
        if pages:
            index += ["", f"## {tree['caption']}", ""]
        for docname in _with_subpages(env, pages):
            doctree = env.get_doctree(docname)
            title = env.titles[docname].astext()
            index.append(f"- [{title}]({app.builder.get_target_uri(docname)}): {_description(doctree)}")
            full += ["", _text_of(env, docname, doctree)]
    for name, lines in (("llms.txt", index), ("llms-full.txt", full)):
        (Path(app.outdir) / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _with_subpages(env: BuildEnvironment, pages: list[str]) -> Iterator[str]:
    """Each page, followed by the pages that its own table of contents lists."""
    for page in pages:
        yield page
        for tree in env.get_doctree(page).findall(toctree):
            yield from _with_subpages(env, [docname for _, docname in tree["entries"]])


def _description(doctree: nodes.document) -> str:
    """The first paragraph of a page."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            return " ".join(paragraph.astext().split())
    raise SphinxError(f"{doctree['source']} has no paragraph that llms.txt could show as its description")


def _text_of(env: BuildEnvironment, docname: str, doctree: nodes.document) -> str:
    """The Markdown of a page; of a page that consists of docstrings, their text."""
    path = ROOT_FILES.get(docname, Path(env.doc2path(docname)))
    text = path.read_text(encoding="utf-8")
    return doctree.astext() if path.suffix == ".rst" or "{eval-rst}" in text else text


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", read_source)
    app.connect("autodoc-skip-member", skip_tuple_fields)
    app.connect("doctree-read", prepare_tables)
    app.connect("build-finished", write_llms_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
