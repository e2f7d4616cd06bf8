"""Training over several devices: the same weights to rounding, by unchanged code."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from inferostatic.learning.training.devices import choose_placement, count_devices

#: Run with as many devices as its argument says. Without an output bias: no loss depends on it,
#: and Adam walks by the signs of rounding errors.
PROGRAM = """
import json, os, sys
os.environ["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={sys.argv[1]}"
import equinox as eqx, jax, numpy as np
import inferostatic as ist
from inferostatic.learning.training.devices import choose_placement
from inferostatic.learning.training.members import extract_weights
assert jax.device_count() == int(sys.argv[1])
events = ist.simulate(ist.toys.Dirichlet(), ist.Uniform([0.5] * 3, [5.0] * 3), 1000, seed=1)
large, small = ist.MLP((64, 64), output_bias=False), ist.MLP((8, 8), output_bias=False)
cases = {
    "members": (small, 4, {}),
    "batches": (small, 1, {}),
    "large members": (large, 4, {}),
    "large batches": (large, 1, {}),
    "batches of three": (small, 3, {}),
    "own batches": (small, 4, {"shared_batches": False}),
    "odd batches": (large, 1, {"batch_size": 50}),
    "no way": (large, 1, {"batch_size": 51}),
}
found = {}
for name in sys.argv[3:]:
    network, members, more = cases[name]
    training = ist.Training(epochs=2, **more)
    kept = f"{sys.argv[2]}/{sys.argv[1]} {name}"
    for _ in range(2):
        est = ist.fit(
            events, network=network, members=members, training=training, checkpoint=kept, seed=2
        )
    leaves = jax.tree.leaves(eqx.filter(est.model.network, eqx.is_array))
    assert all(len(leaf.devices()) == 1 for leaf in leaves)
    found[name] = np.concatenate([np.asarray(leaf).ravel() for leaf in leaves]).tolist()
    placement = choose_placement(members, more.get("batch_size", 64))
    # What a device holds of weights and of batches.
    batch, own = more.get("batch_size", 64), "shared_batches" in more
    order = np.zeros((members, 5, batch) if own else (5, batch), np.int32)
    arrays = placement.place_members(np.zeros((members, 7))), placement.place_order(order, own=own)
    held = [jax.numpy.asarray(array).addressable_shards[0].data for array in arrays]
    found[name + " divided"] = [list(one.shape) for one in held]
    est.score(events.x[:5], events.theta[:5])
if "large batches" in found:
    # Every device evaluates its own events: none is sent the whole batch.
    mesh = jax.sharding.Mesh(jax.devices(), "d")
    axes = (jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec(None, "d"))
    places = [jax.sharding.NamedSharding(mesh, one) for one in axes]
    x, thetas = map(jax.device_put, (np.zeros((64, 3)), np.ones((8, 64, 3))), places)
    member, _ = extract_weights(est.model)
    table = eqx.filter_jit(lambda m, *a: m.potential_table(*a)).lower(member, x, thetas)
    assert "all-gather" not in table.compile().compiled.as_text()
print(json.dumps(found))
"""


#: Shapes of the weights and of the batches that each of four devices holds.
DIVIDED = {
    "members": [[1, 7], [5, 64]],
    "batches": [[1, 7], [5, 16]],
    "large members": [[1, 7], [5, 64]],
    "large batches": [[1, 7], [5, 16]],
    "batches of three": [[3, 7], [5, 16]],
    "own batches": [[1, 7], [1, 5, 64]],
    "odd batches": [[1, 7], [5, 25]],
    "no way": [[1, 7], [5, 51]],
}
#: The same where there is one device.
WHOLE = DIVIDED | {
    "members": [[4, 7], [5, 64]],
    "batches": [[1, 7], [5, 64]],
    "large members": [[4, 7], [5, 64]],
    "large batches": [[1, 7], [5, 64]],
    "batches of three": [[3, 7], [5, 64]],
    "own batches": [[4, 7], [4, 5, 64]],
    "odd batches": [[1, 7], [5, 50]],
}


def train_on(devices: int, folder: Path, cases: Sequence[str]) -> dict[str, Any]:
    environment = {**os.environ, "INFEROSTATIC_PROGRESS": "0", "JAX_PLATFORMS": "cpu"}
    environment["JAX_COMPILATION_CACHE_DIR"] = str(jax.config.jax_compilation_cache_dir)  # pyright: ignore
    command = [sys.executable, "-c", PROGRAM, str(devices), str(folder), *cases]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [["members", "batches"], [*DIVIDED][2:]])
def test_four_devices_agree_with_one(tmp_path: Path, cases: list[str]) -> None:
    one, four = (train_on(devices, tmp_path, cases) for devices in (1, 4))
    for name in cases:
        np.testing.assert_allclose(four[name], one[name], atol=1e-4, rtol=0, err_msg=name)
        assert four[f"{name} divided"] == DIVIDED[name]
        assert one[f"{name} divided"] == WHOLE[name]


def test_one_device_places_nothing() -> None:
    assert count_devices() == 1
    placement = choose_placement(4, 64)
    assert placement.mesh is None
    order = np.arange(6).reshape(2, 3)
    assert placement.place_order(order, own=False) is order
    assert placement.repeat([order]) == [order]


def test_a_device_that_the_user_chose_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "local_device_count", lambda: 4)
    assert count_devices() == 4
    with jax.default_device(jax.devices()[0]):
        assert count_devices() == 1
