"""Work shared among threads."""

import threading
import time

import pytest

from inferostatic import cores
from inferostatic.cores import count_cores, map_in_threads


def test_results_come_in_order_and_the_first_is_done_alone(monkeypatch):
    monkeypatch.setattr(cores, "count_cores", lambda: 4)
    running, alone, threads, lock = 0, [], set(), threading.Lock()

    def work(item):
        nonlocal running
        with lock:
            running += 1
            alone.append(running)
            threads.add(threading.get_ident())
        time.sleep(0.05 if item % 2 else 0.01)
        with lock:
            running -= 1
        return 10 * item

    assert list(map_in_threads(work, range(9))) == [10 * item for item in range(9)]
    assert alone[0] == 1
    assert max(alone) > 1
    assert len(threads) > 2


@pytest.mark.parametrize("items", [[], [3], [3, 4]])
def test_few_items(items):
    assert list(map_in_threads(lambda item: item + 1, items)) == [item + 1 for item in items]


def test_an_error_ends_the_work(monkeypatch):
    monkeypatch.setattr(cores, "count_cores", lambda: 2)
    done = []

    def work(item):
        if item == 1:
            raise ValueError("one is not liked.")
        time.sleep(0.02)
        done.append(item)

    with pytest.raises(ValueError, match="not liked"):
        list(map_in_threads(work, range(100)))
    assert len(done) < 50


def test_this_process_has_cores():
    assert count_cores() >= 1
