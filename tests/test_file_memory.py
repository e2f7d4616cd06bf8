"""Loading takes memory in proportion to the file, whatever it says of itself.

Every file here is of at most 1 MB and made to exhaust the memory: by a description of something
huge, by a shape that its bytes do not fill, or by what it unpacks to. They are in version 1 of the
format, which has no checksum in the way.
"""

import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saved_models import FOLDER

#: Bytes of a file, at most.
LARGEST = 1_000_000
#: Bytes that loading it may take above the import.
ALLOWED = 500_000_000

#: Peak memory in kB before and after each file, and what became of it.
LOADER = """
import json, sys
import inferostatic as ist
from saved_models import SUPPLIED
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))
ist.load(sys.argv[1], supplied=SUPPLIED)  # what every file needs is imported
rows = [(peak(), "")]
for path in sys.argv[2:]:
    try:
        ist.load(path, supplied=SUPPLIED)
        said = "loaded"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    rows.append((peak(), said[:400]))
print(json.dumps(rows))
"""


def members_of(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(FOLDER / f"{name}.isn") as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def packed(members: dict[str, bytes], *, deflated: tuple[str, ...] = ("header.json",)) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            kind = zipfile.ZIP_DEFLATED if name in deflated else zipfile.ZIP_STORED
            archive.writestr(name, data, kind, compresslevel=9)
    return buffer.getvalue()


def edited(name: str, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A stored model whose header was changed."""
    members = members_of(name)
    header = json.loads(members["header.json"])
    change(header)
    return packed(members | {"header.json": json.dumps(header).encode()})


def with_network(described: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        header["architecture"]["fields"]["network"] = described

    return change


def record(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "fields": fields}


def mlp(*widths: int) -> dict[str, Any]:
    return record("MLP", widths={"tuple": widths})


def wide_particles(header: dict[str, Any]) -> None:
    """A particle of a billion features."""
    features = header["shapes"]["fields"]
    features["x_dim"] = features["x_features"]["fields"]["layout"]["fields"]["features"] = 10**9
    features["x_features"]["fields"]["layout"]["fields"]["particles"] = 1


def many_columns(count: int) -> bytes:
    """Observables that really have names and a range, all of them features of one particle."""
    members = members_of("network-particle-set")
    header = json.loads(members["header.json"])
    header["x_names"] = [f"{i:x}" for i in range(count)]
    shapes = header["shapes"]["fields"]
    shapes["x_dim"] = count
    layout = shapes["x_features"]["fields"]["layout"]["fields"]
    layout["particles"], layout["features"] = 1, count
    shapes["x_features"]["fields"]["each"] = record("IdentityMap")
    shapes["x_features"]["fields"]["event"] = record("IdentityMap")
    for edge in ("low", "high"):
        buffer = io.BytesIO()
        np.save(buffer, np.zeros(count, np.float16))
        members[f"arrays/region/x_{edge}.npy"] = buffer.getvalue()
    return packed(members | {"header.json": json.dumps(header).encode()})


def npy(shape: str, data: bytes = b"") -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def array(values: Any, dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"array": values, "dtype": dtype, "shape": shape}


def overlapping() -> bytes:
    """Thousands of entries of the directory that all mean the same half a megabyte."""
    data = packed({"header.json": b"{}", "arrays/a.npy": bytes(500_000)})
    start = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", start + 1)
    end = data.index(b"PK\x05\x06")
    entry = data[second:end]
    count = 5000
    copies = [entry[:46] + f"arrays/{i:04x}.np".encode()[: len(entry) - 46] for i in range(count)]
    directory = data[start:second] + b"".join(copies)
    tail = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, count + 1, count + 1, len(directory), start, 0
    )
    return data[:start] + directory + tail


def lying() -> bytes:
    """A header of a gigabyte that the directory says is small."""
    data = packed({"header.json": bytes(600_000_000)})
    where = data.index(b"PK\x01\x02")
    return data[: where + 24] + struct.pack("<L", 1000) + data[where + 28 :]


def hostile() -> Iterator[tuple[str, bytes]]:
    yield "wide", edited("network-mlp", with_network(mlp(40_000, 40_000)))
    yield "very wide", edited("network-mlp", with_network(mlp(10**15, 10**15)))
    yield "deep", edited("network-mlp", with_network(mlp(*[1] * 100_000)))
    yield "blocks", edited("network-mlp", with_network(record("Residual", blocks=10**7, width=1)))
    towers = record("TwoTower", size=10**9, x_network=mlp(4), theta_network=mlp(4))
    yield "towers", edited("network-mlp", with_network(towers))
    for field, value in (("width", 10**5), ("layers", 10**6), ("depth", 10**6)):
        yield f"flow {field}", edited("nde", with_network(record("MixtureFlow", **{field: value})))
    yield "flow components", edited("nde", with_network(record("MixtureFlow", components=10**8)))
    yield "particle", edited("network-particle-set", wide_particles)
    yield "columns", many_columns(130_000)
    long = {"low": array("a", "<U100000000", []), "high": array([1, 1], "float32", [2])}
    yield "text", edited("network-mlp", lambda h: h["prior"].update(fields=long))
    empty = {"low": array([], "float32", [0, 10**12]), "high": array([1], "float32", [1])}
    yield "empty", edited("network-mlp", lambda h: h["prior"].update(fields=empty))
    points = record("Discrete", points=array([], "f4", [0, 10**11]))
    yield "points", edited("network-mlp", lambda h: h.update(prior=points))
    many = {"tuple": [record("Affine", centre=0, scale=1)] * 70_000}
    yield "records", edited("network-mlp", lambda h: h.update(prior=many))
    yield "objects", edited("network-mlp", lambda h: h.update(prior={"tuple": [{}] * 1_000_000}))
    good = members_of("network-mlp")
    yield "bomb", packed(good | {"header.json": b"[" + b"[]," * 20_000_000 + b"[]]"})
    yield "shape", packed(good | {"arrays/network/0.npy": npy("(10000000000,)")})
    yield "shapes", packed(good | {"arrays/more.npy": npy("(1, 100000, 100000)")})
    zeros = npy("(80000000,)", bytes(320_000_000))
    name = "arrays/network/0.npy"
    yield "zeros", packed(good | {name: zeros}, deflated=("header.json", name))
    yield "overlap", overlapping()
    yield "lying", lying()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_no_file_takes_more_memory_than_files_of_its_size_need(tmp_path: Path) -> None:
    pytest.importorskip("flowjax")
    paths = {}
    for name, data in hostile():
        assert len(data) <= LARGEST, name
        paths[name] = tmp_path / f"{name}.isn"
        paths[name].write_bytes(data)
    first = str(FOLDER / "nde.isn")
    command = [sys.executable, "-c", LOADER, first, *map(str, paths.values())]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    (before, _), *rows = json.loads(done.stdout)
    taken = {name: (peak - before) * 1000 for name, (peak, _) in zip(paths, rows, strict=True)}
    assert max(taken.values()) < ALLOWED, taken
    for name, (_, said) in zip(paths, rows, strict=True):
        assert said.startswith("ValueError"), (name, said)
        assert f"{name}.isn" in said, (name, said)
