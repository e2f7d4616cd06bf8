"""The trained artefact: score, log ratio, save and load."""
