"""Engines: where the blocks of a simulation are run. The same numbers come out of all of them."""
