"""Whether results can be trusted: records of checks, each with its statistical error."""
