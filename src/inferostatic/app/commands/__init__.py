"""The commands: each parses its arguments, calls the library and says what to do next."""
