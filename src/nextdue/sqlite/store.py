"""The store on one SQLite file: each verb of ports.Store is a statement of caller.sql, worker.sql or statements.sql."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from sqlite3 import Cursor
from typing import Any

import msgspec
from msgspec.structs import replace

from nextdue import due, schedule
from nextdue.records import (
    Claim,
    Look,
    Occurrence,
    Put,
    RunView,
    Serving,
    Settlement,
    Stored,
    TaskView,
    TickAnswer,
    TickRequest,
)
from nextdue.sqlite.database import Database, LaneMissing
from nextdue.sqlite.lives import Lives
from nextdue.sqlite.steady import Steady

KEEP_ROWS = 100_000
"""Lines of run history that are kept; 0 keeps none."""
KEEP_MS = 30 * 86_400_000
"""How long they are kept."""

BACKOFFS = msgspec.json.encode([due.crash_backoff_ms(crashes) for crashes in range(1, 14)]).decode()
"""The waits after a task's 1st, 2nd ... crash."""

_claims = msgspec.json.Decoder(list[Claim])
_ids = msgspec.json.Decoder(list[int])
_occurrences = msgspec.json.Decoder(dict[int, Occurrence])
_dues = msgspec.json.Decoder(dict[str, int])
_proofs = msgspec.json.Decoder(list[tuple[int, int]])
_json = msgspec.json.Encoder()
_settlements = msgspec.json.Encoder(enc_hook=lambda error: None)
"""An exception is for the log only."""


def _is_plain(settlement: Settlement) -> bool:
    """Done, with nothing to be kept but the fact."""
    s = settlement
    return s.outcome == "done" and s.forget and s.result is None and s.message is None and s.next_ms is s.next_in_ms


def _told(settlements: Sequence[Settlement]) -> tuple[str, str]:
    """As JSON: plain successes as [token, ran, ids], for what was claimed by one tick has one token; and the others."""
    plain: dict[tuple[int, int | None], list[int]] = {}
    others: list[Settlement] = []
    for s in settlements:
        if _is_plain(s):
            plain.setdefault((s.token, s.ran_ms), []).append(s.id)
        else:
            others.append(s)
    done = [(*way, ids) for way, ids in plain.items()]
    return _json.encode(done).decode(), _settlements.encode(others).decode()


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SqliteStore:
    """ports.Store on an SQLite file. `now` and `monotonic_ms` replace the clocks in tests."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        look: bool = False,
        keep_rows: int = KEEP_ROWS,
        keep_ms: int = KEEP_MS,
        now: Callable[[], int] | None = None,
        monotonic_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        self.database = Database(path, create=create, look=look)
        self.lives = Lives(path)
        self.steady = Steady(monotonic_ms)
        self.database.waited = self.steady.waited
        self.keep_rows, self.keep_ms = keep_rows, keep_ms
        self.on_step: Callable[[int], None] = lambda step_ms: None
        """Told by how many ms a worker's clock was set, forward or (negative) back; once for each time."""
        self._now = now
        self._served: dict[str, str | None] = {}
        self._worker = 0
        self._lanes = -1
        self._rung = 0

    def now_ms(self) -> int:
        """The store's clock."""
        return int(self.database.read("now", self.clock())[0])

    # putting tasks

    def put(self, puts: Sequence[Put]) -> tuple[list[Stored], bool]:
        if len(puts) == 1 and puts[0].key is None:
            (id,), ring = self.put_many(puts[0], f"[{puts[0].args}]", 1)
            return [Stored(id, True, "waiting")], ring
        stored: dict[int, Stored] = {}
        ring = False
        unkeyed = [i for i, p in enumerate(puts) if p.key is None]
        if unkeyed:
            inserted, ring = self._insert([puts[i] for i in unkeyed])
            first = (inserted.lastrowid or 0) - len(unkeyed) + 1
            stored.update({i: Stored(first + n, True, "waiting") for n, i in enumerate(unkeyed)})
        for i, p in enumerate(puts):
            if p.key is not None:
                stored[i], rings = self._put_keyed(p)
                ring = ring or rings
        return [stored[i] for i in range(len(puts))], ring

    def put_many(self, like: Put, calls: str, count: int) -> tuple[range, bool]:
        if not count:
            return range(0), False
        params = {
            "queue": like.queue,
            "name": like.name,
            "priority": like.priority,
            "due": like.due_ms,
            "delay": like.delay_ms,
            "expires": like.expires_ms,
            "expires_in": like.expires_in_ms,
            "grp": like.group,
            "calls": calls,
            "now": self._now and self._now(),
        }
        inserted, ring = self._write_in_lanes("put_many", params, [like])
        last = inserted.lastrowid or 0
        return range(last - count + 1, last + 1), ring

    def cancel(self, id: int) -> str:
        connection = self.database.connection
        before = connection.total_changes
        self.database.write("cancel", {"id": id, "keep_rows": self.keep_rows, **self.clock()})
        changed = connection.total_changes > before
        view = self.get(id)
        if view is None:
            return "cancelled" if changed else "gone"  # without a history nothing of it is left to be seen
        return view.state

    def _insert(self, puts: Sequence[Put]) -> tuple[Cursor, bool]:
        rows = [
            (
                *(p.queue, p.name, p.priority, p.due_ms, p.delay_ms, p.expires_ms, p.expires_in_ms, p.group),
                msgspec.Raw(p.args.encode()),
            )
            for p in puts
        ]
        return self._write_in_lanes("put", {"rows": _json.encode(rows).decode(), **self.clock()}, puts)

    def _put_keyed(self, put: Put) -> tuple[Stored, bool]:
        params = {
            "queue": put.queue,
            "name": put.name,
            "priority": put.priority,
            "due": put.due_ms,
            "delay": put.delay_ms,
            "key": put.key,
            "remember": put.remember_ms or 0,
            "args": put.args,
            "mode": put.mode,
            "latest": put.latest_ms,
            "expires": put.expires_ms,
            "expires_in": put.expires_in_ms,
            "grp": put.group,
            "period": put.period_ms,
            **self.clock(),
        }
        self._write_in_lanes("put_keyed" if put.period_ms is None else "put_on_demand", params, [put])
        id, before, ring, self._rung = self.database.read("kept", {})
        created = before is None or before == "over"
        return Stored(id, created, "waiting" if created else before), bool(ring)

    def _write_in_lanes(self, name: str, params: dict[str, Any], puts: Sequence[Put]) -> tuple[Cursor, bool]:
        """Write; the first task of a lane finds it missing, and makes it. Also says whether one touched the bell."""
        connection = self.database.connection
        before = connection.total_changes
        try:
            inserted = self.database.write(name, params)
        except LaneMissing:
            for queue, task, priority in dict.fromkeys((p.queue, p.name, p.priority) for p in puts):
                self.database.write("lane_add", {"queue": queue, "name": task, "priority": priority})
            return self._write_in_lanes(name, params, puts)
        return inserted, connection.total_changes - before > inserted.rowcount and self._bell_rung()

    def _bell_rung(self) -> bool:
        """Whether the bell was touched since this was last asked; a trigger of the user's may have changed rows too."""
        (rung,) = self.database.read("bell", {})
        seen, self._rung = self._rung, rung
        return bool(rung != seen)

    # the worker's verbs

    def enlist(self) -> int:
        self.database.script("worker_setup")
        self.database.script("limits_setup")
        self.lives.prepare()
        params = {"host": socket.gethostname(), "pid": os.getpid(), **self.clock()}
        worker = self.database.write("enlist", params).lastrowid or 0
        self.lives.begin(worker)
        self._worker = worker
        return worker

    def resign(self, worker: int) -> None:
        self.database.write("resign", {"worker": worker})
        self.lives.end(worker)

    def serve(self, names: Mapping[str, Serving], queues: Sequence[str] | None) -> None:
        self._served = {
            "names": _json.encode(names).decode(),
            "queues": None if queues is None else _json.encode(list(queues)).decode(),
        }
        self.database.run("serve_limits", self._served)
        self.database.run("serve_forget_rates", {})
        self.database.run("serve_rates", self._served)
        self._open_lanes(self.database.read("lanes", {})[0])
        self.database.write("unblock", self._served, durable=False)
        self.database.write("forget_rates", self.clock(), durable=False)
        said = _json.encode((list(names), queues)).decode()
        self.database.write("serves", {"worker": self._worker, "serves": said}, durable=False)
        self._cut()

    def tick(self, request: TickRequest) -> TickAnswer:
        done, others = _told(request.settlements)
        params = {
            "done": done,
            "settlements": others,
            "progress": _json.encode(request.progress).decode(),
            "worker": request.worker,
            "token": request.token,
            "kind": request.kind,
            "slots": request.slots,
            "ahead": request.ahead,
            "fair": request.fair,
            "alone": int(request.alone),
            "pauses": self._lanes >> 32,
            "until": request.until_ms,
            "renewed": request.renewed_ms,
            "renew_every": request.renew_every_ms or 1 << 60,
            "keep_rows": self.keep_rows,
            "keep_ms": self.keep_ms,
        }
        self.database.write("tick", lambda: params | self._believed(), durable=bool(request.settlements))
        now, claims, settled, alone_due, lanes, passed, expired, ring, stops = self.database.read("ticked", params)
        if lanes != self._lanes:
            self._open_lanes(lanes)
        self._saw(now)
        renewed = request.renew_every_ms > 0 and not 0 <= now - request.renewed_ms <= request.renew_every_ms
        held = self.database.read("held", params)[0] if renewed else None
        return TickAnswer(
            now_ms=now,
            claims=self._with_schedules(_claims.decode(claims)),
            lost=[] if settled == len(request.settlements) else self._lost(request.settlements),
            held=None if held is None else set(_proofs.decode(held)),
            alone_due_ms=alone_due,
            ring=bool(ring),
            passed=bool(passed),
            expired=expired,
            stops=_proofs.decode(stops),
        )

    def _with_schedules(self, claims: list[Claim]) -> list[Claim]:
        """The claims of schedules' rows with what is to be known of their schedules."""
        ids = [claim.id for claim in claims if claim.key is not None and claim.key[0] == schedule.MARK]
        if not ids:
            return claims
        text = self.database.read("occurrences", {"ids": _json.encode(ids).decode()})[0]
        known = _occurrences.decode(text)
        return [replace(c, occurrence=known[c.id]) if c.id in known else c for c in claims]

    def look(self, worker: int) -> Look:
        while True:
            believed = self._believed()
            row = self.database.read("look", {"worker": worker, **believed})
            now, dues, alone_due, doubted, lanes, stops = row
            opened = lanes != self._lanes
            if opened:
                self._open_lanes(lanes)
            if not (self._saw(now) or opened):
                break  # else what was read goes by other lanes, or by leases that a clock step made look expired
        retry_at = None if doubted is None else now + max(1, due.disbelief_ms(doubted, self.steady.ms()))
        return Look(now, _dues.decode(dues), alone_due, retry_at, _proofs.decode(stops))

    def stops(self, worker: int) -> list[tuple[int, int]]:
        return _proofs.decode(self.database.read("stops", {"worker": worker})[0])

    def bury(self) -> list[int]:
        buried: list[int] = []
        for worker in self.lives.dead():
            self.database.write(
                "bury", {"worker": worker, "backoffs": BACKOFFS, "keep_rows": self.keep_rows, **self.clock()}
            )
            buried += _ids.decode(self.database.read("buried", {})[0])
            self.lives.forget(worker)
        return buried

    def _lost(self, settlements: Sequence[Settlement]) -> list[tuple[int, int]]:
        settled = set(_proofs.decode(self.database.read("settled", {})[0]))
        return [(s.id, s.token) for s in settlements if (s.id, s.token) not in settled]

    def _open_lanes(self, lanes: int) -> None:
        self.database.run("serve_clear", {})
        self.database.run("serve", self._served)
        self._lanes = lanes

    def _saw(self, now: int) -> bool:
        """Whether the clock was set since it was last seen."""
        step = self.steady.saw(now)
        if step < 0:
            self._cut()
        if step:
            self.on_step(step)
            self.database.write("note_step", {"step": step, **self.clock()}, durable=False)
        return step != 0

    def _cut(self) -> None:
        """After a clock that was set back no lease of the dead or the unknown is longer than what was asked (the living
        see to theirs), and no wait for a period from an end, or for a start by a rate, is longer than that."""
        living = _json.encode(self.lives.living()).decode()
        self.database.write("cut_leases", {"living": living, **self.clock()}, durable=False)
        for wait in ("cut_periods", "cut_slots", "cut_rates"):
            self.database.write(wait, self.clock(), durable=False)

    def _believed(self) -> dict[str, int | None]:
        """The clock, and how far other people's expired leases may be believed."""
        expected = self.steady.expected_ms()
        steady_ms = 0 if expected is None else self.steady.ms()
        return {"believed": due.believed_lease_ms(steady_ms), "expected": expected, **self.clock()}

    def clock(self) -> dict[str, int | None]:
        """The parameter `now` of a statement: None outside tests, where the file's own clock speaks."""
        return {"now": self._now() if self._now else None}

    # looking

    def get(self, id: int) -> TaskView | None:
        self.database.check_file()
        for where in ("get", "get_run", "get_result"):
            row = self.database.read(where, {"id": id})
            if row is not None:
                return TaskView(*row)
        return None

    def by_key(self, name: str, key: str) -> TaskView | None:
        row = self.database.read("key_state", {"name": name, "key": key})
        return self.get(row[0]) if row else None

    def runs(self, *, task: int | None = None, limit: int = 100) -> list[RunView]:
        return [RunView(*row) for row in self.database.rows("runs", {"task": task, "limit": limit})]

    # the connection

    def quiet(self) -> bool:
        """Whether nobody's commit is in flight."""
        return self.database.quiet()

    def close(self) -> None:
        self.lives.let_go()
        self.database.close()
