"""A SLURM cluster of one node on this machine, for one test; needs Debian's `slurm-wlm`."""

import contextlib
import getpass
import os
import platform
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: Programs that it is made of.
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
#: Where daemons are installed, which is not in every user's PATH.
DAEMONS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
#: Seconds that the node has to become idle.
STARTING_SECONDS = 40.0
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class NoSlurm(RuntimeError):
    """SLURM is not installed or does not start here."""


@contextlib.contextmanager
def slurm_node() -> Iterator[dict[str, str]]:
    """Start a cluster; the environment in which `sbatch` uses it."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=DAEMONS) is None]
    if missing:
        raise NoSlurm(f"{', '.join(missing)} not found; apt-get install slurm-wlm")
    # In a folder with a short name, because those of sockets are limited.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    environment = {**os.environ, "PATH": DAEMONS, "SLURM_CONF": str(folder / "slurm.conf")}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "key").write_bytes(secrets.token_bytes(1024))
        (folder / "key").chmod(0o600)
        (folder / "slurm.conf").write_text(_configure(folder))
        files = {"key": "key", "socket": "munge.socket", "pid": "munge.pid", "seed": "seed"}
        options = [f"--{name}-file={folder / file}" for name, file in files.items()]
        options[1] = f"--socket={folder / 'munge.socket'}"
        for command in (
            ["munged", "--foreground", "--force", *options],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            stack.enter_context(_running(command, environment, folder / f"{command[0]}.out"))
        _wait(environment, folder)
        yield environment


def _configure(folder: Path) -> str:
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (first, second)]
    return CONFIGURATION.format(
        host=platform.node().partition(".")[0],
        folder=folder,
        user=getpass.getuser(),
        ports=ports,
        cores=os.cpu_count(),
    )


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    path = shutil.which(command[0], path=DAEMONS)
    assert path is not None
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [path, *command[1:]], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(environment: dict[str, str], folder: Path) -> None:
    until = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < until:
        told = subprocess.run(
            ["sinfo", "-h", "-o", "%t"], env=environment, capture_output=True, text=True
        )
        if told.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    said = "".join(f"\n{log.name}: {log.read_text()[-500:]}" for log in folder.glob("*.out"))
    raise NoSlurm(f"the node did not become idle in {STARTING_SECONDS:g} s{said}")
