"""Names of users as matplotlib draws them."""

from matplotlib import cbook, mathtext

#: Letters of a name that a figure shows at most.
LONGEST = 28


def show_name(name: str) -> str:
    r"""A name for a figure: what stands between dollars is set as mathematics.

    Anything else is drawn as it stands, also where matplotlib could not set it. Long names are cut.

    >>> show_name(r"$\alpha_s$"), show_name("5$ off"), show_name(r"$\nonsense$")
    ('$\\alpha_s$', '5\\$ off', '\\$\\nonsense\\$')
    """
    name = " ".join(name.split())
    if cbook.is_math_text(name):
        try:
            mathtext.MathTextParser("path").parse(name)
        except ValueError:
            pass
        else:
            return name
    short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    # Legends leave out labels that begin with an underscore.
    return ("\u200b" if short.startswith("_") else "") + short.replace("$", r"\$")
