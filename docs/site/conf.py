"""Settings of the documentation site: `make docs` builds it with Sphinx from `docs/`."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

from epochmq import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "EpochMQ"
author = "The EpochMQ authors"
copyright = "The EpochMQ authors"
release = version = __version__
extensions = [
    "command_help",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.mermaid",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"EpochMQ {version}"
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 5
myst_fence_as_directive = ["mermaid"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?!adr/|[A-Za-z-]+\.md)([\w./-]+)\)")


def _name_files(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Name the files of the repository that are not pages; the site has no copies of them."""
    source[0] = _OUTSIDE.sub(lambda found: f"{found[1]} (`{found[2]}`)", source[0])


def setup(app: Sphinx) -> None:
    """Connect the changes of pages."""
    app.connect("source-read", _name_files)
