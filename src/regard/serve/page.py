"""The page at /: translate, search, classify and the rest, for the models that are served.

It is made as the explorer's is (`regard.look.page`), of the same parts: one HTML file whose policy lets it
run its own script and ask its own server, and nothing else.
"""

import json
import re
from importlib.resources import files

from starlette.responses import HTMLResponse, Response

from regard.look.page import one_page

SCRIPTS = ("core.js",)
VIEWS = ("translate", "documents", "search", "classify", "tag", "answer", "fill", "complete")
"""In the order of their tabs; documents are part of translate."""


def page(*, look: bool, documents: bool) -> str:
    """`look`: the explorer is served too; `documents`: files are translated."""
    names = [*SCRIPTS, *(f"views/{view}.js" for view in VIEWS), "start.js"]
    data = json.dumps({"look": look, "documents": documents})
    return one_page(files("regard.serve") / "page", names, data, reaches=True)


def page_response(html: str) -> Response:
    """A page with its policy said before it is read, which alone can keep it out of other sites' frames."""
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    headers = {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return HTMLResponse(html, headers=headers)
