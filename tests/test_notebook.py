"""A real notebook kernel shows what it should: tables of results, and a bar while work goes on."""

import os
import queue
import re
from collections.abc import Iterator
from typing import Any

import pytest

from inferostatic.progress import progress

#: Seconds that the kernel may take for one cell, on a machine that is busy.
PATIENCE = 120


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from jupyter_client.manager import start_new_kernel

    environment = {k: v for k, v in os.environ.items() if k != "INFEROSTATIC_PROGRESS"}
    manager, client = start_new_kernel(startup_timeout=PATIENCE, env=environment)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run_cell(client: Any, code: str) -> list[dict[str, Any]]:
    """Run a cell; what its kernel sent to the notebook until it was idle again."""
    sent = client.execute(code)
    messages = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=PATIENCE)
        except queue.Empty as error:
            raise AssertionError(f"the kernel sent nothing for {PATIENCE} s") from error
        if message["parent_header"].get("msg_id") != sent:
            continue
        kind, content = message["msg_type"], message["content"]
        assert kind != "error", content
        if kind == "status" and content["execution_state"] == "idle":
            return messages
        messages.append({"kind": kind, **content})


WORK = """
import time, inferostatic.progress as p
p.SECONDS_BETWEEN_BARS, p.SECONDS_KEPT = 0.0, {kept}
with p.progress("fitting <b>", 3) as advance:
    for step in range(3):
        advance(1, f"loss {{step}}")
"""


def test_a_bar_is_shown_once_and_then_replaced(kernel: Any) -> None:
    sent = run_cell(kernel, WORK.format(kept=0.0))
    shown = [one for one in sent if one["kind"] == "display_data"]
    replaced = [one for one in sent if one["kind"] == "update_display_data"]
    assert len(shown) == 1
    identity = shown[0]["transient"]["display_id"]
    assert {one["transient"]["display_id"] for one in replaced} == {identity}
    assert shown[0]["data"]["text/plain"] == "fitting <b>: 0/3"
    assert shown[0]["data"]["text/html"] == (
        '<div><progress value="0" max="3"></progress> fitting &lt;b&gt;: 0/3</div>'
    )
    texts = [one["data"]["text/plain"] for one in replaced]
    assert re.fullmatch(r"fitting <b>: 1/3, about \d+ s left; loss 0", texts[0])
    assert texts[-1] == "fitting <b>: 3/3 in 0 s; loss 2"
    assert "<progress" not in replaced[-1]["data"]["text/html"]
    # Neither red text nor plain lines beside it.
    assert not [one for one in sent if one["kind"] == "stream"]


def test_short_work_leaves_nothing(kernel: Any) -> None:
    sent = run_cell(kernel, WORK.format(kept=60.0))
    assert sent[-1]["data"]["text/html"] == "<div></div>"


def test_work_that_failed_says_how_far_it_came(kernel: Any) -> None:
    failing = WORK.format(kept=60.0) + "        raise ValueError\n"
    head = "import contextlib\nwith contextlib.suppress(ValueError):"
    sent = run_cell(kernel, head + failing.replace("\n", "\n    "))
    assert sent[-1]["data"]["text/plain"] == "fitting <b>: 1/3 in 0 s; loss 0"


def test_silence_on_request(kernel: Any) -> None:
    sent = run_cell(kernel, WORK.format(kept=0.0).replace("3) as", "3, show=False) as"))
    assert [one["kind"] for one in sent if one["kind"] not in ("status", "execute_input")] == []


def test_results_are_shown_as_tables(kernel: Any) -> None:
    code = "import inferostatic as ist\nist.Uniform(0, 1, names=['<script>'])"
    (result,) = [one for one in run_cell(kernel, code) if one["kind"] == "execute_result"]
    assert result["data"]["text/plain"] == "Uniform(<script> from 0 to 1)"
    assert "<table>" in result["data"]["text/html"]
    assert "&lt;script&gt;" in result["data"]["text/html"]
    assert "<script>" not in result["data"]["text/html"]


def test_no_bar_without_a_kernel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.delenv("INFEROSTATIC_PROGRESS", raising=False)
    with progress("fitting", 1, show=True) as advance:
        advance(1)
    assert capsys.readouterr().err == "fitting: 1/1 in 0 s\n"
