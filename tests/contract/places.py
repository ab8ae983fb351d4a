"""One file under a clock that only moves when told to, and as many stores on it as a test wants."""

from nextdue.records import Put, Serving, Settlement, TaskView, TickAnswer, TickRequest
from nextdue.sqlite import care
from nextdue.sqlite.store import SqliteStore
from nextdue.testing import FakeClock

LEASE_MS = 60_000
KEYED = Put("mail", "default", 0, "[1]", key="k", remember_ms=10_000)


class Hand:
    """A worker of the tests' own: it claims and settles by hand."""

    def __init__(self, place, leases, queues):
        self.store = place.open()
        self.id = self.store.enlist()
        self.store.serve({n: how if isinstance(how, Serving) else Serving(how) for n, how in leases.items()}, queues)
        self.ticks = 0
        self.leases, self.queues = leases, queues
        self.held = {}

    def tick(self, settlements=(), *, slots=0, **wishes) -> TickAnswer:
        """One tick; what it claimed and settled is kept account of in `held`."""
        self.ticks += 1
        request = TickRequest(self.id, list(settlements), self.id << 32 | self.ticks, slots, **wishes)
        answer: TickAnswer = self.store.tick(request)
        for s in settlements:
            if self.held.get(s.id) is not None and self.held[s.id].token == s.token:
                del self.held[s.id]
        self.held.update({claim.id: claim for claim in answer.claims})
        return answer

    def claim(self, slots=100, **wishes):
        """What a worker takes that looked before, as each does that slept."""
        self.store.look(self.id)
        return self.tick(slots=slots, **wishes).claims

    def die(self):
        """The end of its process: the system lets go of its lock, and its connection is no more."""
        self.store.lives.let_go()
        self.store.database.connection.close()


class Place:
    """The file of one test."""

    def __init__(self, kind, folder):
        assert kind == "sqlite"
        self.path = folder / "shop.db"
        self.clock = FakeClock()
        self.stores = []
        self.store = self.open()

    def open(self, **options):
        store = SqliteStore(self.path, now=self.clock.now, monotonic_ms=self.clock.monotonic_ms, **options)
        self.stores.append(store)
        return store

    def hand(self, leases=None, queues=None) -> Hand:
        return Hand(self, {"mail": LEASE_MS} if leases is None else leases, queues)

    def put(self, name="mail", queue="default", priority=0, args="[1]", **rest):
        """The id of a new task."""
        (stored,), _ = self.store.put([Put(name, queue, priority, args, **rest)])
        assert stored.created
        return stored.id

    def rows(self):
        """All that the tables of tasks and runs say."""
        connection = self.store.database.connection
        return [
            connection.execute(f"SELECT * FROM nextdue_{table} ORDER BY id").fetchall() for table in ("task", "run")
        ]

    def close(self):
        for store in self.stores:
            store.lives.let_go()
            store.database.connection.close()


def listed(store, limit=100, **which) -> list[TaskView]:
    """The tasks that match, nearest due first."""
    found = [store.get(task.id) for task in care.listed(store, care.Chosen(**which), limit=limit)]
    return [view for view in found if view is not None]


def done(claim, **fields) -> Settlement:
    return Settlement(claim.id, claim.token, "done", **({"ran_ms": 5, "forget": True} | fields))


def again(claim, outcome="failed", delay_ms=1_000, **fields) -> Settlement:
    kept = {"attempts": claim.attempts + (outcome == "failed"), "crashes": claim.crashes, "alone": bool(claim.alone)}
    return Settlement(claim.id, claim.token, outcome, ran_ms=5, delay_ms=delay_ms, **(kept | fields))


def at_rest(claim, rest="dead", **fields) -> Settlement:
    kept = {"attempts": claim.attempts, "crashes": claim.crashes, "alone": bool(claim.alone)}
    return Settlement(claim.id, claim.token, rest, ran_ms=5, rest=rest, **(kept | fields))


def put(place, **changes):
    (stored,), ring = place.store.put([KEYED._replace(**changes)])
    return stored, ring


def row(place, id, *columns):
    query = f"SELECT {', '.join(columns)} FROM nextdue_task WHERE id = ?"
    found = place.store.database.connection.execute(query, (id,)).fetchone()
    return found[0] if found and len(columns) == 1 else found


def outcomes(place, id):
    return [run.outcome for run in place.store.runs(task=id)][::-1]


def buried(place, hand):
    """This worker dies, and a neighbour finds it."""
    neighbour = place.hand(hand.leases)
    hand.die()
    neighbour.store.bury()
    return neighbour
