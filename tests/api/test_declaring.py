"""Declaring tasks: what can't work is refused where it is written, and says what to do."""

import functools
import os
from pathlib import Path

import pytest

from nextdue import BadDefinition, BadTime, Context, Nextdue, NotAStore, Retry, StoreError

# the file


@pytest.mark.parametrize("path", [":memory:", "", "file:shop.db", "file:shop.db?mode=memory", b"shop.db", "a\x00b"])
def test_a_path_that_names_no_lasting_file_is_refused_at_once(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadDefinition, match=r"is no path to a file.*Path\(__file__\)\.with_name"):
        Nextdue(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("url", ["postgresql://localhost/shop", "sqlite:///shop.db", "redis://localhost"])
def test_a_url_is_refused_at_once(url):
    with pytest.raises(BadDefinition, match=r"://.*not supported by this version; give the path of a file"):
        Nextdue(url)


@pytest.mark.parametrize("path", [5, None, ["shop.db"]])
def test_what_is_no_path_at_all_is_a_type_error(path):
    with pytest.raises(TypeError):
        Nextdue(path)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"keep_runs": -1}, BadDefinition, "keep_runs must be a whole number from 0, not -1"),
        ({"keep_runs": True}, BadDefinition, "keep_runs must be"),
        ({"keep_runs": "all"}, BadDefinition, "keep_runs must be"),
        ({"keep_runs_for": "long"}, BadTime, "keep_runs_for: can't read 'long'"),
        ({"keep_runs_for": -1}, BadTime, "keep_runs_for must not be negative"),
        ({"keep": 5}, TypeError, "'keep'"),
    ],
)
def test_options_of_the_application_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        Nextdue("shop.db", **options)


def test_the_path_is_absolute_from_the_start_and_the_file_is_made_at_the_first_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nd = Nextdue("shop.db")
    assert nd.path == tmp_path / "shop.db"
    monkeypatch.chdir("/")
    assert not (tmp_path / "shop.db").exists()
    assert nd.find() == []
    assert (tmp_path / "shop.db").stat().st_mode & 0o777 == 0o600
    nd.close()


def no_database(folder: Path) -> dict[str, Path]:
    (folder / "text").write_text("not a database, however long. " * 500)
    (folder / "short").write_text("hi")
    return {
        "a text": folder / "text",
        "a short text": folder / "short",
        "a directory": folder,
        "in a missing directory": folder / "missing" / "shop.db",
        "below a file": folder / "text" / "shop.db",
        "too long": folder / ("x" * 300),
        "a surrogate": folder / "\ud800.db",
    }


@pytest.mark.parametrize(
    ("which", "error", "words"),
    [
        ("a text", NotAStore, "is not an SQLite database"),
        ("a short text", NotAStore, "is not an SQLite database"),
        ("a directory", StoreError, "is a directory; give the path of a file in it"),
        ("in a missing directory", StoreError, "missing doesn't exist; make the directory first"),
        ("below a file", StoreError, "can't be created: .*Not a directory"),
        ("too long", StoreError, "can't be created: .*File name too long"),
        ("a surrogate", StoreError, "can't be created"),
    ],
)
def test_a_file_that_can_not_be_ours_is_refused_at_the_first_use_and_left_alone(which, error, words, tmp_path):
    path = no_database(tmp_path)[which]
    before = path.read_bytes() if os.path.isfile(path) else None
    listed = sorted(os.listdir(tmp_path))
    nd = Nextdue(path)

    @nd.task
    def send(n): ...

    for use in (lambda: send.enqueue(1), lambda: send.enqueue_many([(1,)]), nd.find):
        with pytest.raises(error, match=words):
            use()
    assert before is None or path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == listed


# the function


async def coroutine(): ...


def generator():
    yield 1


async def stream():
    yield 1


class Callable_:
    def __call__(self, n): ...

    def method(self, n): ...

    @classmethod
    def of_the_class(cls, n): ...

    @staticmethod
    def alone(n): ...


def plain(n): ...


def another(n): ...


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda: None, r"a lambda has no name to be stored under; write @nd.task\(name=...\)"),
        (generator, r"generator \(.*test_declaring.py:\d+\): a generator can't be a task; write a plain function"),
        (stream, "stream .*write a plain function or a coroutine"),
        (Callable_, "must be a function, not <class.*wrap it in one written with def"),
        (Callable_(), "must be a function, not <.*Callable_ object"),
        (functools.partial(plain, 1), "must be a function, not functools.partial"),
        (Callable_.__dict__["of_the_class"], "must be a function, not <classmethod"),
        (5, "must be a function, not 5"),
        ("send", "must be a function, not 'send'"),
        (print, r"task print takes \*args; write each argument out"),
    ],
)
def test_what_can_not_be_a_task_is_refused_at_once(nd, fn, words):
    with pytest.raises(BadDefinition, match=words):
        nd.task(fn)
    assert nd.tasks == {}


def test_a_coroutine_runs_in_the_loop_and_a_function_in_threads(nd):
    assert (nd.task(coroutine).options.run_in, nd.task(plain).options.run_in) == ("loop", "thread")
    options = [nd.task(name=kind, run_in=kind)(fn).options for kind, fn in (("loop", coroutine), ("process", plain))]
    assert [o.run_in for o in options] == ["loop", "process"]


@pytest.mark.parametrize(
    ("fn", "run_in", "words"),
    [
        (plain, "loop", r'plain \(.*\): run_in="loop" is for coroutines; write async def, or leave run_in out'),
        (coroutine, "thread", "coroutine .*a coroutine runs in the loop, not in a thread; leave run_in out"),
        (coroutine, "process", "coroutine .*a coroutine runs in the loop, not in a process"),
        (plain, "threads", 'task plain: run_in is "thread", "loop" or "process", not \'threads\''),
        (plain, "", "task plain: run_in is"),
        (plain, ["thread"], "task plain: run_in is"),
        (coroutine, 5, "coroutine .*not in a 5"),
    ],
)
def test_where_a_task_can_not_run_is_refused_at_once(nd, fn, run_in, words):
    with pytest.raises(BadDefinition, match=words):
        nd.task(run_in=run_in)(fn)
    assert nd.tasks == {}


def test_arguments_without_names_are_refused_at_once(nd):
    def many(*numbers): ...

    def named(ctx, **options): ...

    for fn, shown in ((many, r"\*numbers"), (named, r"\*\*options")):
        with pytest.raises(BadDefinition, match=f"takes {shown}; write each argument out"):
            nd.task(fn)
    assert nd.tasks == {}


@pytest.mark.parametrize("fn", [functools.partial(plain, 1), Callable_(), Callable_])
def test_a_name_does_not_make_a_function(nd, fn):
    with pytest.raises(BadDefinition, match="must be a function"):
        nd.task(name="named")(fn)


def test_methods_bound_to_something_are_functions(world, nd):
    seen: list[object] = []

    class Shop:
        def send(self, n: int) -> None:
            seen.append((self, n))

        @classmethod
        def count(cls, n: int) -> None:
            seen.append((cls, n))

        @staticmethod
        def note(n: int) -> None:
            seen.append(n)

    shop = Shop()
    for fn in (shop.send, Shop.count, Shop.note, Shop.__dict__["note"]):
        nd.task(name=f"task {len(nd.tasks)}")(fn).enqueue(len(nd.tasks))
    world.work()
    assert seen == [(shop, 1), (Shop, 2), 3, 4]


def test_a_method_without_its_object_is_refused_where_it_is_declared(nd, refuses):
    def declare():
        class Shop:
            @nd.task
            def send(self, n): ...

    with refuses(BadDefinition, r"Shop\.send .* is a method; a task must be a function"):
        declare()


def test_what_was_not_enqueued_says_so(nd, refuses):
    @nd.task
    def send(n): ...

    call = send.using(delay="5m")
    assert repr(call) == "<send, not stored yet: .enqueue(...) does that>"
    with refuses(BadDefinition, r"task send: write \.using\(\.\.\.\)\.enqueue\(\.\.\.\)"):
        call(1)


def test_a_named_lambda_is_a_task(world, nd):
    seen: list[int] = []
    nd.task(name="add")(lambda n: seen.extend([n, n])).enqueue(5)
    world.work()
    assert seen == [5, 5]


def test_what_a_decorator_wrapped_is_a_task(world, nd):
    seen: list[object] = []

    def twice(fn):
        @functools.wraps(fn)
        def inner(*args):
            fn(*args)
            fn(*args)

        return inner

    @nd.task
    @twice
    def note(n: frozenset[int]) -> None:
        seen.append(n)

    note.enqueue(frozenset({1}))
    world.work()
    assert seen == [frozenset({1})] * 2


# names


def test_two_functions_of_one_name_are_refused_with_both_places(nd):
    def first():
        def send(a): ...

        return send

    def second():
        def send(b): ...

        return send

    nd.task(first())
    with pytest.raises(BadDefinition) as refused:
        nd.task(second())
    text = str(refused.value)
    assert "two tasks are called 'send'" in text
    assert "give one of them a name=..." in text
    places = [f"{Path(__file__)}:{fn.__code__.co_firstlineno}" for fn in (first(), second())]
    assert all(place in text for place in places)
    assert nd.tasks["send"].definition.signature.names == ["a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": "a"}, {"name": "b", "aliases": ["a"]}),
        ({"name": "a", "aliases": ["b"]}, {"name": "b"}),
        ({"name": "a", "aliases": ["c"]}, {"name": "b", "aliases": ["x", "c"]}),
    ],
)
def test_names_and_aliases_are_one_space(nd, first, second):
    nd.task(**first)(plain)
    with pytest.raises(BadDefinition, match=r"two tasks are called '[abc]'"):
        nd.task(**second)(another)
    assert list(nd.tasks) == ["a"]
    nd.task(name="x")(plain)  # nothing of the refused one is left


def test_another_application_may_use_the_same_name(world):
    for nd in (world.nd, world.app()):
        nd.task(plain)


def test_a_former_name_still_runs(world):
    seen: list[int] = []
    old = world.app()
    old.task(name="mail")(lambda n: None).enqueue(5)
    world.nd.task(name="send", aliases="mail")(seen.append)
    world.work()
    assert seen == [5]


# options


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"name": ""}, BadDefinition, "name must have 1 to 200 characters"),
        ({"name": 5}, BadDefinition, "name must be a str"),
        ({"name": "x" * 201}, BadDefinition, "this one has 201"),
        ({"name": "a\x00"}, BadDefinition, "control characters or lone surrogates"),
        ({"queue": ""}, BadDefinition, "queue's name must have"),
        ({"queue": None}, BadDefinition, "queue's name must be a str"),
        ({"priority": 101}, BadDefinition, "from -100 to 100, not 101"),
        ({"priority": "high"}, BadDefinition, "from -100 to 100, not 'high'"),
        ({"retry": 3}, BadDefinition, r"task plain: retry must be a Retry\(...\), not 3"),
        ({"retry": 0}, BadDefinition, "retry must be"),
        ({"retry": False}, BadDefinition, "retry must be"),
        ({"retry": {}}, BadDefinition, "retry must be"),
        ({"lease": 0.5}, BadDefinition, "task plain: a lease under 1 s"),
        ({"lease": None}, BadTime, "lease must be a timedelta"),
        ({"lease": "soon"}, BadTime, "lease: can't read 'soon'"),
        ({"lease": True}, BadTime, "lease must be a timedelta"),
        ({"time_limit": 0}, BadDefinition, "task plain: the time limit must be over 0"),
        ({"time_limit": -1}, BadTime, "time_limit must not be negative"),
        ({"time_limit": 10**12}, BadTime, "time_limit of .* is probably in milliseconds|so it is probably"),
        ({"keep_result": None}, BadTime, "keep_result must be a timedelta"),
        ({"keep_result": "yes"}, BadTime, "keep_result: can't read 'yes'"),
        ({"keep_result": -1}, BadTime, "keep_result must not be negative"),
        ({"keep_result": 0}, BadDefinition, "task plain: keep_result must be over 0; False keeps no results"),
        ({"aliases": 5}, BadDefinition, "aliases are a list of former names, not 5"),
        ({"aliases": [5]}, BadDefinition, "an alias must be a str"),
        ({"aliases": None}, BadDefinition, "aliases are a list"),
        ({"quue": "mail"}, BadDefinition, "@nd.task has no option 'quue'; did you mean queue?"),
        ({"time_limt": 5}, BadDefinition, "did you mean time_limit?"),
        ({"zzz": 5}, BadDefinition, "@nd.task has no option 'zzz'; its options are name, queue, priority, retry"),
    ],
)
def test_options_of_a_task_are_checked_where_they_are_written(nd, options, error, words):
    with pytest.raises(error, match=words):
        nd.task(**options)(plain)
    assert nd.tasks == {}


def test_what_is_said_of_a_task_can_be_read(nd):
    @nd.task(queue="mail", priority=5, retry=Retry(limit=2), lease="10m", time_limit=30, keep_result=True)
    def send(ctx: Context, to: str) -> None:
        """Send a mail."""

    assert send.name == "send"
    assert send.__doc__ == "Send a mail."
    assert send.__module__ == __name__
    assert repr(send) == f"<task send of {nd.path}>"
    assert (send.options.queue, send.options.priority, send.options.lease_ms) == ("mail", 5, 600_000)
    assert (send.options.time_limit_ms, send.options.keep_result) == (30_000, True)
    assert nd.tasks == {"send": send}
