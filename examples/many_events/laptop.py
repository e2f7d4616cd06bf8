"""One process for each core fills a store, then a network is trained from it."""

import inferostatic as ist
from simulator import prior, simulator

if __name__ == "__main__":
    with ist.ProcessPool() as pool:
        events = ist.simulate(simulator, prior, 1_000_000, store="events", engine=pool, seed=1)
    est = ist.fit(events, checkpoint="fit.checkpoint", seed=2)
    est.save("model.isn")
