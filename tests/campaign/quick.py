"""A sample of everything, in some seconds and one process, for every run of the tests."""

from .faults import cases as fault_cases
from .mutations import cases as file_cases
from .public import light_targets
from .targets import Case, cases_of

#: Files of some kinds are enough.
MODELS = ("network-mlp", "centred", "direct-ratio")
#: Primes, so that a sample has something of every target and every input.
EVERY_FILE, EVERY_INPUT, EVERY_KILL = 5, 83, 31
#: Faults without a process of their own.
FAULTS = ("full disk", "limit of a file", "read-only folder", "below a file", "device", "long name")


def cases() -> list[Case]:
    kills = [case for case in fault_cases() if case[0].startswith("kill ")][::EVERY_KILL]
    places = [case for case in fault_cases() if case[0] in FAULTS]
    inputs = cases_of(light_targets())[::EVERY_INPUT]
    return [*file_cases(MODELS)[::EVERY_FILE], *inputs, *kills, *places]
