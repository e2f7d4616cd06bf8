"""SIGTERM as an exception, while work is saved."""

import os
import signal
import threading

import pytest

from inferostatic.interruption import exit_when_terminated, is_interruption


def test_a_request_to_end_raises_and_the_handler_is_restored() -> None:
    with pytest.raises(SystemExit) as found, exit_when_terminated():
        os.kill(os.getpid(), signal.SIGTERM)
    assert found.value.code == 143
    assert is_interruption(found.value)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_user_stays() -> None:
    told = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        with exit_when_terminated():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == [signal.SIGTERM]


def test_other_threads_have_no_handlers() -> None:
    found = []

    def work() -> None:
        with exit_when_terminated():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_what_counts_as_an_interruption() -> None:
    assert is_interruption(KeyboardInterrupt())
    assert not is_interruption(SystemExit(1))
    assert not is_interruption(RuntimeError())
    assert not is_interruption(None)
