"""Tables of text."""

import pytest

from inferostatic.tables import display_width, format_table


def test_columns_are_aligned_whatever_their_characters() -> None:
    lines = format_table(
        {
            "parameter": ["a", "a longer name"],
            "E[ŝŝᵀ]": ["1 ± 0.1", "θ̂"],
            "interval": ["1 to 2", "3"],
        },
        left=("parameter", "interval"),
    )
    assert lines == [
        "parameter       E[ŝŝᵀ]  interval",
        "a              1 ± 0.1  1 to 2",
        "a longer name        θ̂  3",
    ]


def test_the_first_column_is_left_aligned_by_default() -> None:
    assert format_table({"": ["x"], "y": ["10"]}) == ["    y", "x  10"]
    assert format_table({}) == []


def test_widths_of_accents_and_wide_characters() -> None:
    assert [display_width(text) for text in ("abc", "θ̂", "界", "−∇²φ")] == [3, 1, 2, 4]


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="same number of cells"):
        format_table({"a": ["1"], "b": []})
