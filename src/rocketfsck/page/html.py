"""The report page as one HTML file that needs no network.

    render(document) -> str      the page of a store or of a fleet

The file holds the document as JSON, the script that draws it, its style sheet, and a policy that allows those
two by their hashes and nothing else: no other script or style, no image, no request, no form. Names and texts
of the store are in the JSON, where every character that HTML knows is an escape; the script puts them into
text nodes. The script is bundled from page/ in the repository, with the plotting library
(`assets/licences.txt`).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from rocketfsck.common.documents import packaged_text

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""In JSON, these characters are only inside strings. Without them nothing ends the element around it."""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the verdict</a>
<header id="top">
<h1>{title}</h1>
</header>
<main id="main" tabindex="-1">
<noscript>
<h2>{headline}</h2>
{lines}
<p>The map and the tables need JavaScript. The page itself makes no request.</p>
</noscript>
</main>
<footer id="foot"></footer>
<div id="announced" class="heard" aria-live="polite"></div>
<script type="application/json" id="document">{document}</script>
<script type="application/json" id="licences">{licences}</script>
<script>{script}</script>
</body>
</html>
"""


def render(document: Mapping[str, Any]) -> str:
    """The page of a document, of a store or of a fleet, as its JSON values.

    What HTML could treat as markup is escaped wherever it comes from; lone surrogates are escapes, so that
    the text can always be written as UTF-8.
    """
    script, style, licences = _asset("page.js"), _asset("page.css"), _asset("licences.txt")
    headline = _shown(document.get("headline") or "A report of rocketfsck")
    lines = "\n".join(f"<p>{_shown(line)}</p>" for line in document.get("lines") or ())
    return _PAGE.format(
        policy=policy(script, style),
        title=_shown(_title(document)),
        headline=headline,
        lines=lines,
        style=style,
        document=json_text(document),
        licences=json_text(licences),
        script=script,
    )


def json_text(value: Mapping[str, Any] | str) -> str:
    """A value as JSON in ASCII that nothing in HTML can end or open.

    Raises ValueError for numbers that JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def policy(script: str, style: str) -> str:
    """The content security policy of a page with this script and this style sheet."""
    parts = {
        "default-src": "'none'",
        "script-src": f"'sha256-{_hash(script)}'",
        "style-src": f"'sha256-{_hash(style)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(document: Mapping[str, Any]) -> str:
    root = str((document.get("store") or {}).get("root") or "")
    return f"Store report: {root}" if root else "Report on several stores"


def _shown(text: str) -> str:
    """A text in HTML: markup is escaped, and what cannot be seen or changes the direction of writing is."""
    seen = (
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )
    return html.escape("".join(seen))


@cache
def _asset(name: str) -> str:
    text = packaged_text(__name__, f"assets/{name}")
    return text.rstrip("\n") if name.endswith((".js", ".css")) else text
