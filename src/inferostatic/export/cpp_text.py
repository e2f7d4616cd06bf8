"""Numbers, texts and names as C++ writes them."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

#: Longest line of numbers, in characters.
LINE = 96
#: Words that C++17 does not allow as names, and those that the header uses itself.
WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const const_cast consteval constexpr constinit continue
    co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq std main linux unix"""
#: Functions that headers of C leave outside of `std`, so that no namespace can have their names.
FUNCTIONS_OF_C = """abort abs access acos acosh asin asinh atan atan2 atanh atexit atof atoi atol
    bsearch calloc cbrt ceil clock close connect copysign cos cosh difftime div drem dup erf erfc
    exit exp exp2 expm1 fabs fdim floor fma fmax fmin fmod fork free frexp gamma getenv hypot ilogb
    index j0 j1 jn kill labs ldexp ldiv lgamma link listen log log10 log1p log2 logb lrint lround
    malloc modf nan nearbyint nextafter pause pipe pow printf puts qsort raise rand random
    read realloc remainder remove remquo rename rindex rint round scalbn select send signal
    significand sin sinh sleep sqrt srand srandom stat strtod system tan tanh tgamma time trunc wait
    write y0 y1 yn"""
RESERVED = frozenset(f"{WORDS} {FUNCTIONS_OF_C}".split())


def float_literal(value: float) -> str:
    """A float32, to its last digit; infinities become the largest number, which no value exceeds.

    Examples:
        >>> float_literal(0.1), float_literal(float("inf"))
        ('0.1f', '3.4028235e+38f')
    """
    return float_literals(np.array([value]))[0]


def float_literals(values: np.ndarray) -> list[str]:
    """As `float_literal`, of many numbers."""
    largest = np.finfo(np.float32).max
    numbers = np.clip(np.asarray(values).ravel(), -largest, largest).astype(np.float32)
    return [f"{number}f" for number in numbers.astype(str)]


def double_literal(value: float) -> str:
    """A float64, to its last digit, or an infinity.

    Examples:
        >>> double_literal(0.5), double_literal(float("-inf"))
        ('0.5', '-std::numeric_limits<double>::infinity()')
    """
    if np.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<double>::infinity()"
    return repr(float(value))


def string_literal(text: str) -> str:
    r"""A string; what is not plain ASCII goes by its bytes, so that no compiler misreads it.

    Examples:
        >>> string_literal('m "Z"')
        '"m \\"Z\\""'
    """
    # All that can be printed but for the mark that begins trigraphs.
    plain = re.compile(rb"[ !#->@-\[\]-~]")
    quoted = {0x22: '\\"', 0x5C: "\\\\"}
    written = (
        chr(byte) if plain.match(bytes([byte])) else quoted.get(byte, f"\\{byte:03o}")
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(written)}"'


def comment_text(text: str) -> str:
    """Text for a line of a comment: printable, and without the backslash that would go on."""
    printed = "".join(c if c.isprintable() and c != "\\" else " " for c in text)
    return printed.replace("??", "? ?")  # begins a trigraph, which may be a backslash


def join_lines(parts: Iterable[str], indent: str = "    ") -> str:
    """The parts with commas between them, in lines."""
    lines, line = [], indent
    for part in parts:
        if len(line) + len(part) + 2 > LINE and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{part}, "
    return "\n".join([*lines, line.rstrip().rstrip(",")])


def float_table(name: str, values: np.ndarray) -> str:
    """A member of a struct: a constant array of floats."""
    numbers = float_literals(values)
    return f"  static constexpr float {name}[{len(numbers)}] = {{\n{join_lines(numbers)}}};"


def as_namespace(name: str) -> str:
    """A name that C++ takes, made of one that a file may have.

    Examples:
        >>> as_namespace("my-model 2"), as_namespace("2tops"), as_namespace("signal")
        ('my_model_2', 'model_2tops', 'signal_')
    """
    found = re.sub(r"\W+", "_", name, flags=re.ASCII)
    # Names with two underscores, or one at the beginning, belong to the compiler.
    found = re.sub(r"__+", "_", found).strip("_")
    if not found or found[0].isdigit():
        found = f"model_{found}".rstrip("_")
    return f"{found}_" if found in RESERVED else found


def is_namespace(name: str) -> bool:
    """Whether C++ takes this name as it is."""
    return as_namespace(name) == name or (name.endswith("_") and as_namespace(name[:-1]) == name)


def member_rows(rows: Sequence[np.ndarray]) -> str:
    """The weights of every member, a row for each."""
    return ",\n".join("    {\n" + join_lines(float_literals(row), "     ") + "}" for row in rows)
