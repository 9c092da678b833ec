"""Files that pages are made of (scripts, style sheets, a chart library), read from the package, never from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from markupsafe import Markup

UPLOT_SCRIPT = "uplot/uPlot.iife.min.js"
UPLOT_STYLE = "uplot/uPlot.min.css"


def text(name: str) -> str:
    """The file `name` under `loadkit/assets`, as text.

    Raises:
        FileNotFoundError: there is no such file in the package.
    """
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def script(name: str) -> Markup:
    """A script as it may stand between script tags: nothing in it can end the element."""
    return Markup(text(name).replace("</script", "<\\/script"))


def style(name: str) -> Markup:
    """A style sheet as it may stand between style tags."""
    return Markup(text(name).replace("</style", "<\\/style"))
