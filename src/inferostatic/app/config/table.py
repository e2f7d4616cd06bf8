"""Tables of a study, as pydantic models: what a field must be is said once, beside the field."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

#: Most events, toys or draws that a file may ask for: a billion.
MOST = 10**9


class AbstractTable(BaseModel):
    """A table of the file: no other keys, no conversion of texts to numbers, no NaN."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=False
    )


def entry(expected: str, default: Any = ..., **bounds: Any) -> Any:  # noqa: ANN401
    """A field; `expected` completes the sentence "… must be" and goes into errors and pages."""
    return Field(default, description=expected, **bounds)


#: A confidence level.
Level = Annotated[float, Field(gt=0, lt=1)]
#: A file's name, the name of a column and other short texts.
Text = Annotated[str, Field(min_length=1, max_length=4096)]
#: A value for each of some parameters, by name.
Values = dict[str, float]
#: Two numbers for each of some parameters, by name.
Pairs = dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]]
