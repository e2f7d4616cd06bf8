"""A fuzz and fault campaign: thousands of damaged files, odd inputs and interrupted writes.

Every case ends in one of these classes, and the last three must stay empty.

- same: it works, and gives what the plain input gives.
- odd: it works, on input that differs but is documented to be taken; the answer is finite.
- clear: it is refused, by a sentence of the library.
- raw: it is refused, by an error from inside Python, NumPy, JAX, …
- silent: it works, but with NaN, or on input that should have been refused.
- crash: the process dies, or takes too much memory or time.

Cases run in a process of their own, in which nothing checks types beside the library, as for users.
"""
