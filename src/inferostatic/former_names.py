"""Names that model files of earlier versions hold, and what they are called now.

Files name classes and their fields. Whoever renames one adds it here, so that old files keep
loading; `serial.restore` reads these tables.
"""

#: Present names of classes and functions by their former ones.
FORMER_NAMES: dict[str, str] = {"Identity": "IdentityMap"}

#: Present names of fields by their former ones, for each class by its present name.
FORMER_FIELDS: dict[str, dict[str, str]] = {
    "CandidateSets": {"law": "candidates"},
    "LabelledPairs": {"law": "pairs"},
}
