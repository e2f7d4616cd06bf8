"""Random streams: no function shares its random numbers with another, or with the user's own."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, gaussian

SEED = 1
PRIOR = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=["a", "b"])
ESTIMATOR = exact_estimator(gaussian, PRIOR, np.full(2, -9.0), np.full(2, 9.0))
THETA = np.array([0.3, -0.2])
SOURCE = Path(ist.__file__).parent


def state_of(rng: np.random.Generator) -> tuple[int, int]:
    state: Any = rng.bit_generator.state
    return state["state"]["state"], state["state"]["inc"]


class Recorder:
    """A simulator that keeps the states of the generators that it is called with."""

    def __init__(self) -> None:
        self.states: list[tuple[int, int]] = []

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.states.append(state_of(rng))
        return theta + rng.normal(size=theta.shape)


def observe(n: int = 40) -> np.ndarray:
    return THETA + np.random.default_rng(99).normal(size=(n, 2))


def limit(simulator: Recorder, toys: int | None) -> object:
    likelihood = ist.Likelihood(ESTIMATOR, observe(), rate=lambda t: 40 + 2 * t[0])
    method = ist.CLs(simulator=simulator, toys=toys)
    scan = None if toys is None else [1.0, 2.0]
    return ist.upper_limit(likelihood, "a", method, background=-2.0, scan=scan, seed=SEED)


def predict(simulator: Recorder) -> object:
    found = ist.posterior(ESTIMATOR, observe(), seed=SEED)
    return ist.checks.posterior_predictive(found, observe(), simulator, draws=30, seed=SEED)


def export(simulator: Recorder) -> object:
    observable = ist.observable(ESTIMATOR, THETA)
    templates = ist.Templates(ist.Simulated(simulator, seed=SEED, events=3000))
    return ist.to_pyhf(observable, templates, expected=100.0, poi="a")


def calibrate(simulator: Recorder) -> object:
    nearby = ist.NearbySimulation(simulator, most_events=30_000)
    return ist.calibrated_fit(ESTIMATOR, observe(400), simulator=nearby, seed=SEED)


def calibrate_limit(simulator: Recorder) -> object:
    nearby = ist.NearbySimulation(simulator, most_events=30_000)
    method = ist.CLs(calibration=nearby)
    return ist.upper_limit(ESTIMATOR, observe(400), "a", method, background=-2.0, seed=SEED)


SIMULATIONS: dict[str, Callable[[Recorder], object]] = {
    "simulate": lambda s: ist.simulate(s, PRIOR, 25_000, seed=SEED),
    "draw KSE": lambda s: ist.draw(ist.KSE(ist.Delta(0.2)), s, PRIOR, 11_000, seed=SEED),
    "fisher": lambda s: ist.fisher(ESTIMATOR, s, THETA, n=11_000, seed=SEED),
    "score_response": lambda s: ist.score_response(ESTIMATOR, THETA, s, n=2000, seed=SEED),
    "posterior_predictive": predict,
    "Neyman": lambda s: ist.confidence_set(
        ESTIMATOR, observe(), ist.Neyman(s, toys=20), grid={"a": [0.0, 0.5], "b": [0.0]}, seed=SEED
    ),
    "upper_limit": lambda s: limit(s, None),
    "upper_limit with toys": lambda s: limit(s, 20),
    "to_pyhf": export,
    "calibrated_fit": calibrate,
    "upper_limit with a calibration": calibrate_limit,
}
#: Functions that simulate the same numbers on purpose, at each of their points.
REPEATS = {"to_pyhf"}


def users_generators(seed: int) -> Iterator[np.random.Generator]:
    """What a user is likely to write with one seed."""
    yield np.random.default_rng(seed)
    yield from (np.random.default_rng(seed + k) for k in range(1, 200))
    yield from (np.random.default_rng([seed, k]) for k in range(200))
    yield from (np.random.default_rng([k, seed]) for k in range(200))
    yield from (
        np.random.default_rng(pair) for pair in itertools.product([seed], range(9), range(9))
    )
    children = np.random.SeedSequence(seed).spawn(50)
    yield from map(np.random.default_rng, children)
    yield from (np.random.default_rng(s) for child in children[:9] for s in child.spawn(9))
    for state in np.random.SeedSequence(seed).generate_state(50).tolist():
        yield np.random.default_rng(state)


def users_keys(seed: int) -> Iterator[Any]:
    key = jax.random.key(seed)
    yield key
    yield from (jax.random.key(seed + k) for k in range(1, 100))
    for count in (2, 3, 10, 300):
        yield from jax.random.split(key, count)
    for child in jax.random.split(key, 5):
        yield from jax.random.split(child, 5)
    yield from (jax.random.fold_in(key, k) for k in range(100))
    yield from (
        jax.random.fold_in(jax.random.fold_in(key, k), n) for k in range(6) for n in range(6)
    )


def is_traced(made: object) -> bool:
    return "Tracer" in type(made).__name__


def words(key: Any) -> tuple[int, ...]:  # noqa: ANN401
    return tuple(np.asarray(jax.random.key_data(key)).ravel().tolist())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_function_simulates_with_the_random_numbers_of_another_or_of_the_user() -> None:
    owners: dict[tuple[int, int], set[str]] = {}
    for rng in users_generators(SEED):
        owners.setdefault(state_of(rng), set()).add("the user")
    for name, run in SIMULATIONS.items():
        recorder = Recorder()
        run(recorder)
        repeated = [state for state, times in Counter(recorder.states).items() if times > 1]
        assert recorder.states, name
        assert not repeated or name in REPEATS, name
        for state in recorder.states:
            owners.setdefault(state, set()).add(name)
    shared = [sorted(names) for names in owners.values() if len(names) > 1]
    # Toys are made at the same points after Asimov data of the same stream.
    assert [names for names in shared if names != ["upper_limit", "upper_limit with toys"]] == []


def sample(method: Any) -> object:  # noqa: ANN401
    return ist.posterior(ESTIMATOR, observe(), PRIOR, method, seed=SEED)


def close_up() -> object:
    x = observe(400)
    weights = ist.reweight(ESTIMATOR, x, THETA, THETA + 0.1)
    return ist.closure(weights, x + 0.1, seed=SEED)


OTHERS: dict[str, Callable[[], object]] = {
    "sample of a prior": lambda: PRIOR.sample(5, seed=SEED),
    "simulate": lambda: ist.simulate(Recorder(), PRIOR, 10, seed=SEED),
    "draw KLRE": lambda: ist.draw(ist.KLRE(ist.Delta(0.2)), Recorder(), PRIOR, 9, seed=SEED),
    "draw KCE": lambda: ist.draw(ist.KCE(number=3), Recorder(), PRIOR, 9, seed=SEED),
    "fit": lambda: ist.fit(
        ist.simulate(Recorder(), PRIOR, 400, seed=SEED),
        network=ist.MLP((4,)),
        training=ist.Training(epochs=2, centre=True),
        members=2,
        seed=SEED,
    ),
    "grid": lambda: sample(ist.Grid(50)),
    "importance": lambda: sample(ist.Importance(50)),
    "maximum likelihood": lambda: ist.maximum_likelihood(ESTIMATOR, observe()),
    "diagnose": lambda: ist.diagnose(
        ESTIMATOR, ist.simulate(Recorder(), PRIOR, 1000, seed=SEED), seed=SEED
    ),
    "closure": close_up,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_no_function_draws_the_users_random_numbers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generators = {state_of(rng) for seed in (0, SEED) for rng in users_generators(seed)}
    keys = {words(key) for seed in (0, SEED) for key in users_keys(seed)}
    found: list[str] = []
    default_rng, key, fold_in = np.random.default_rng, jax.random.key, jax.random.fold_in

    def watch(make: Callable[..., Any], identify: Callable[[Any], object], known: set[Any]) -> Any:  # noqa: ANN401
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            made = make(*args, **options)
            if not is_traced(made) and identify(made) in known:
                found.append(f"{make.__name__}{args}")
            return made

        return call

    observe()  # the test's own numbers
    monkeypatch.setattr(np.random, "default_rng", watch(default_rng, state_of, generators))
    monkeypatch.setattr(jax.random, "key", watch(key, words, keys))
    monkeypatch.setattr(jax.random, "fold_in", watch(fold_in, words, keys))
    OTHERS[name]()
    own = {"default_rng(99,)"}  # `observe`
    assert [what for what in found if what not in own] == []


def test_every_purpose_and_block_has_a_stream_of_its_own() -> None:
    from inferostatic.streams import Purpose, Stream

    blocks = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    streams = [Stream(s, p, b) for s in (0, SEED) for p in Purpose for b in blocks]
    users = [state_of(rng) for seed in (0, SEED) for rng in users_generators(seed)]
    states = [state_of(stream.generator()) for stream in streams]
    assert len({*states, *users}) == len(states) + len(set(users))
    keys = [words(stream.key()) for stream in streams]
    theirs = {words(key) for seed in (0, SEED) for key in users_keys(seed)}
    assert len({*keys, *theirs}) == len(keys) + len(theirs)
    seeds = [seed for stream in streams for seed in stream.seeds(3)]
    assert len(set(seeds)) == len(seeds)
    nested = Stream(3, Purpose.SIMULATE).block(1).generator(2)
    assert state_of(nested) == state_of(Stream(3, Purpose.SIMULATE, (1, 2)).generator())


def test_generators_and_keys_are_made_by_streams_alone() -> None:
    making = re.compile(r"(default_rng|SeedSequence|RandomState|random\.key|PRNGKey)\(")
    # Those of a simulator follow from the generator that it is called with; the matrix of a toy is
    # a constant of its definition.
    allowed = re.compile(r">>>|rng\.integers|for instance|pass np\.random|size=\(.*dim\)\) / 3")
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name not in {"streams.py", "threefry.py"}
        for line in path.read_text().splitlines()
        if making.search(line) and not allowed.search(line)
    ]
    assert found == []


def test_keys_of_many_blocks_are_those_of_each() -> None:
    from inferostatic.streams import Purpose, Stream
    from inferostatic.threefry import make_key

    stream = Stream(2**31 + 5, Purpose.SIMULATE_THETA).block(4)
    keys = jax.vmap(make_key)(stream.key_words(range(5, 9)))
    alone = [jax.random.key_data(stream.key(number)) for number in range(5, 9)]
    np.testing.assert_array_equal(jax.random.key_data(keys), np.stack(alone))
