"""Settings of Sphinx, which builds the documentation site: ``make docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# autodoc reads signatures and docstrings, which compiled classes do not have in full.
os.environ.update(KPRODUCER_KERNEL="pure", KPRODUCER_INTERPRETED="1")
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from kproducer import __version__  # noqa: E402
from kproducer._core.runtime import public_names  # noqa: E402

# autodoc finds the order and the types of members in the module of a class. Named tuples do not need that.
_public = public_names.public
public_names.public = lambda named: _public(named) if hasattr(named, "_fields") else named

project = "kproducer"
author = "The kproducer authors"
project_copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_extension"]
exclude_patterns = ["_build"]
nitpicky = True
# Sphinx would need the inventories of other projects, which are on the network. Our own names must resolve.
nitpick_ignore_regex = [("py:.*", r"(?!kproducer\b).*\..*|array|UUID")]
# Names in annotations, which the docstrings describe.
_DESCRIBED = ("ColumnFormat", "DeliveryCallback", "Headers", "HeadersInput", "Outcome", "SendFuture")
nitpick_ignore = [("py:class", name) for name in _DESCRIBED]
# Classes of prometheus_client and OpenTelemetry.
_FOREIGN = ("CollectorRegistry", "MeterProvider", "TextMapPropagator", "TracerProvider")
nitpick_ignore += [("py:class", name) for name in _FOREIGN]
# The types of CancelledSend's attributes.
nitpick_ignore += [
    ("py:class", "kproducer._core.event_loop.loop_waiters.AwaitedRecord"),
    ("py:class", "kproducer.errors.Outcome"),
]

# Blocks that Pygments cannot read are shown without colors: diagrams, which GitHub draws, and some Java.
suppress_warnings = ["misc.highlighting_failure"]

# Quotation marks stay as they are, because much of the text is about code.
smartquotes_action = "D"

# The same anchors as on GitHub.
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
# A docstring may describe several parameters together, which the field ":param:" does not allow.
napoleon_use_param = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"kproducer {version}"
html_static_path = ["_static"]
# Without one, browsers ask for /favicon.ico, which does not exist.
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
# The modules of the reference are pages already.
html_domain_indices = False
html_theme_options = {
    "source_repository": "https://github.com/kproducer/kproducer/",
    "source_branch": "main",
    "source_directory": "docs/",
}
