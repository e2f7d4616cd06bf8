"""The process in which cases run: `python -m campaign.worker PART FIRST EVERY`."""

import importlib
import json
import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

import jax

from .outcomes import Outcome

#: Bytes of addresses beyond those after the imports: a huge array fails at once.
ADDRESSES = 8 << 30

#: Cases after which compiled programs are forgotten: each maps some memory, of which Linux allows
#: a process only so many pieces.
FORGET = 5000


def tell(**message: object) -> None:
    os.write(CHANNEL, (json.dumps(message) + "\n").encode())


def _place(error: Exception) -> str:
    return str(traceback.extract_tb(error.__traceback__)[-1])


if __name__ == "__main__":
    part, first, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # What the library prints must not mix with the messages.
    CHANNEL = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    cache = Path(__file__).parent.parent.parent / ".pytest_cache" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    warnings.simplefilter("ignore")
    cases = importlib.import_module(f"campaign.{part}").cases()
    if Path("/proc/self/statm").exists():
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, resource.RLIM_INFINITY))
    done: list[str] = []
    for index in range(first, len(cases)):
        # A prime step takes something of every target and of every input.
        if index % every:
            continue
        if len(done) % FORGET == 0:
            jax.clear_caches()
        name, run = cases[index]
        done.append(name)
        tell(begins=name, index=index)
        start = time.monotonic()
        try:
            outcome = run()
        except Exception as error:  # of the campaign itself, or of an answer that cannot be read
            outcome = Outcome(name, "crash", f"{type(error).__name__}: {error} {_place(error)}")
        detail = f"{outcome.detail[:600]} ({time.monotonic() - start:.2f} s)"
        tell(**{"class": outcome.kind, "detail": detail})
    tell(ended=True)
