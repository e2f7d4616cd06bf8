r"""Formulas become MathML while the site is built, so that pages need no script and no network.

Arithmatex marks them in the HTML of a page as \(…\) and \[…\]; every browser of today draws MathML.
"""

import html as entities
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
#: Environments of several lines whose lines the converter would put one behind the other.
ENVIRONMENT = re.compile(r"\{(?:aligned|gathered)\}")
#: A name of several letters, such as ln, before something that it acts on without a bracket.
NAME = re.compile(r"(<mi>[a-z]{2,}</mi>)(?!<mo stretchy=\"false\">&#x00028;|</|<mo>)")
#: Between such a name and what follows, as TeX has it.
THIN_SPACE = r'\1<mspace width="0.167em"/>'
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)


def to_mathml(formula: str, *, display: str) -> str:
    """One formula; a command that the converter does not know is an error."""
    latex = ENVIRONMENT.sub("{align*}", entities.unescape(formula).strip())
    found = convert(latex, display=display)
    unknown = re.search(r"\\[A-Za-z]+", found)
    if unknown:
        raise PluginError(
            f"{unknown[0]} in the formula {latex!r} has no MathML; write it otherwise"
        )
    if r"\\" in latex and "<mtr>" not in found:
        raise PluginError(f"the lines of the formula {latex!r} would run together")
    # Of a separator the browser knows which space belongs behind it; of an identifier it does not.
    return NAME.sub(THIN_SPACE, found.replace("<mi>;</mi>", "<mo>;</mo>"))


def on_page_content(html: str, **_: Any) -> str:  # noqa: ANN401
    """The page with all of its formulas as MathML."""

    def inline(found: re.Match[str]) -> str:
        return to_mathml(found[1], display="inline")

    def display(found: re.Match[str]) -> str:
        return f'<div class="formula">{to_mathml(found[1], display="block")}</div>'

    return DISPLAY.sub(display, INLINE.sub(inline, html))
