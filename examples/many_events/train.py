"""Trains from a store that is complete; started again, it goes on where it was stopped."""

import inferostatic as ist

if __name__ == "__main__":
    events = ist.Store("events").events()
    est = ist.fit(events, checkpoint="fit.checkpoint", seed=2)
    est.save("model.isn")
