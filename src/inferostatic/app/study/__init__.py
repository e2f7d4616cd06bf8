"""A study: a folder with `study.toml`, the steps that it asks for, and what they left."""
