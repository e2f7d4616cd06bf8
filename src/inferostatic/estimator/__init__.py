"""The trained artefact: score, log ratio, save and load."""

# With whatever is imported from here: it tells pickle how estimators are written.
from . import loading as loading
