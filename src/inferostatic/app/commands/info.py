"""`inferostatic info`: what is in a file of a trained model."""

import stat
from pathlib import Path
from typing import Annotated, Any

import typer

from .endings import fail, show, show_json


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="File of a trained model, .isn.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Print the card of a model: what it was made of, where it was trained, and what to trust.

    Only the file is read, which holds numbers and names but no code.

    Exit status: 0, 1 if it cannot be read, 2 for wrong arguments.
    """
    path = _require_file(model)
    try:
        from ...estimator.loading import load

        loaded = load(path)
        content, text = describe_model(loaded), loaded.card.summary()
    except (OSError, ValueError, TypeError, RuntimeError, ImportError, MemoryError) as error:
        fail(error)
    if as_json:
        show_json({"file": model, **content})
        return
    lines = [
        f"{name}: {_show(content[name])}" for name in ("stopped", "choices") if name in content
    ]
    show("\n".join([text, *lines, f"next: est = ist.load({model!r}) in Python"]))


def describe_model(model: Any) -> dict[str, Any]:  # noqa: ANN401
    """What a model is, as JSON has it."""
    found: dict[str, Any] = {"kind": type(model).__name__}
    for name in ("x_names", "theta_names"):
        found[name] = list(getattr(model, name))
    for name in ("method", "members", "prior"):
        value = getattr(model, name, None)
        found[name] = value if value is None or isinstance(value, int) else str(value)
    region = getattr(model, "region", None)
    if region is not None:
        found["trained region"] = {
            name: [float(low), float(high)]
            for name, low, high in zip(
                model.theta_names, region.theta_low, region.theta_high, strict=True
            )
        }
    history = getattr(model, "history", None)
    if history is not None:
        losses = history.validation_loss
        found["epochs"] = len(history.train_loss)
        found["validation loss"] = None if not losses.size else _finite(losses[-1].mean())
        found["stopped"] = history.stopped
        found["choices"] = list(history.choices)
        found["warnings"] = list(history.warnings)
    return found | {"card": model.card.to_dict()}


def _finite(value: Any) -> float | None:  # noqa: ANN401
    number = float(value)
    return number if number - number == 0 else None


def _show(value: object) -> str:
    """In one line, without what would move a terminal's cursor."""
    from ...summary import clean

    shown = ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
    return clean(shown)


def _require_file(given: str) -> Path:
    try:
        if given and stat.S_ISREG(Path(given).stat().st_mode):
            return Path(given)
        reason = "it is no regular file"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    raise typer.BadParameter(f"{given!r} cannot be read: {reason}.", param_hint="MODEL")
