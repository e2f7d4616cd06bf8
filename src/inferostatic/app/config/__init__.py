"""The file `study.toml`: what it may hold, and errors that name the field."""
