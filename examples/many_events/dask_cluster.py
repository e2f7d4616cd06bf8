"""A Dask cluster fills a store: `python dask_cluster.py [ADDRESS]`, by default on this machine."""

import sys

import distributed

import inferostatic as ist
from simulator import prior, simulator

if __name__ == "__main__":
    client = None
    if len(sys.argv) > 1:
        client = distributed.Client(sys.argv[1])
        client.upload_file("simulator.py")  # which workers elsewhere could not import
    with ist.Dask(client) as engine:
        ist.simulate(simulator, prior, 1_000_000, store="events", engine=engine, seed=1)
    print(ist.Store("events").status().summary())
