"""The documentation site: `make docs`. The root is the project's folder, so that links are the same as on GitHub."""

import re

import voxpop

project = "voxpop"
author = "The voxpop developers"
copyright = author  # noqa: A001  the name that Sphinx reads
version = release = voxpop.__version__

root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**.md"]
exclude_patterns = [".*", "benchmarks", "build", "dist", "src", "tests", "voxpop-*", "docs/_*"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as on GitHub, so that guide.md#when-to-stop-asking works in both
highlight_language = "none"  # formulas and listings without a language are plain text

default_role = "literal"  # docstrings write `names` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
nitpicky = True
# Types of other libraries and of the inner modules, which this site does not document.
nitpick_ignore_regex = [(r"py:.*", r"(?!voxpop\.\w+$).*")]

html_theme = "pydata_sphinx_theme"
html_title = "voxpop"
html_copy_source = False
html_show_sourcelink = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
html_sidebars = {page: [] for page in ("docs/*", "[A-Z]*", "search", "genindex")}  # only the gallery has one
smartquotes = False
html_theme_options = {
    "logo": {"text": "voxpop"},
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp, .go"


def as_restructured_text(app, what, name, obj, options, lines):
    """Turn what docstrings write as Markdown into reStructuredText, in place: tables, and bars around a norm."""
    made: list[str] = []
    example = False
    for line in lines:
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>> "))
        if example or re.fullmatch(r"\|[-:|]+\|", line):
            made += [line] * example
        elif line.startswith("| "):
            if not made or not made[-1].startswith("   "):
                made += [".. list-table::", "   :header-rows: 1", ""]
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            made += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
        else:
            made.append(line.replace("|", r"\|"))
    lines[:] = made


def setup(app):
    """Register what this site adds to Sphinx."""
    for name in voxpop.__all__:
        getattr(voxpop, name)  # names are imported late, and autodoc only sees those that were
    app.connect("autodoc-process-docstring", as_restructured_text)
