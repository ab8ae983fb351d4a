"""What a program did to the files of one folder, in order, as strace saw it, and what it acknowledged meanwhile.

A system call of the list below that touches the folder and isn't understood raises Unknown: what would be missed
silently would make the whole test worthless. For the same reason a test compares what the recording says with the
files that the program left behind.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

INSTALL = (
    "the power-cut test needs strace, and a machine on which it may attach: install it with `apt-get install strace`"
)
MARK = b"@ack "
"""How a line begins by which the program says that something was acknowledged to it."""
CALLS = (
    *("open", "openat", "openat2", "creat", "lseek", "mmap"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "fsync", "fdatasync", "sendfile", "splice", "copy_file_range", "io_uring_setup"),
)


IGNORED = ("-shm", "-wake", "-owner", "-workers")
"""What holds nothing: SQLite makes the first anew after a restart, the others are locks and a bell."""


class Unknown(Exception):
    """The program did something to the folder that the recorder doesn't know how to repeat."""


class Step(NamedTuple):
    """One thing that happened. `begun` and `ended` are places in the recording; another thread's may lie between."""

    kind: str
    """open, write, size, rename, link, unlink, mkdir, sync; said: an acknowledgement."""
    begun: int
    ended: int
    path: str = ""
    """Below the folder; "." is itself."""
    to: str = ""
    """Of a rename or a link: the other name. Of said: its text."""
    at: int = 0
    """Where it wrote, or the new size; of open, 1: it is made empty."""
    data: bytes = b""
    nameless: bool = False
    """The file had lost its name before."""


def record(argv: Sequence[str], folder: Path, out: Path, **env: str) -> str:
    """Run a program and write down what it does to the files in `folder`; answers what it printed.

    Raises AssertionError if it fails, or where strace is missing or can't attach.
    """
    if shutil.which("strace") is None:
        raise AssertionError(f"{INSTALL}; there is none here")
    done = subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", str(1 << 26), "--signal=none", "-qq", "-e", f"trace={','.join(CALLS)}",
         "-o", str(out), *argv],
        cwd=folder.parent, env={**os.environ, **env}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    refused = [line for line in done.stderr.splitlines() if line.startswith("strace: ")]
    if refused:
        raise AssertionError(f"{INSTALL}; here it says {refused[0]!r}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Call(NamedTuple):
    """One line of strace, or both halves of one."""

    name: str
    args: str
    result: str
    begun: int
    ended: int


_WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (.*)$", re.DOTALL)
_FIRST = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$", re.DOTALL)
_SECOND = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (.*)$", re.DOTALL)
_FD = re.compile(r"^(?:AT_FDCWD|\d+)<((?:\\x..)*)>(\(deleted\))?")
_TEXT = re.compile(r'"((?:\\x..)*)"')


def calls(lines: Iterator[str]) -> Iterator[Call]:
    """The calls in the order in which they began. One that never ended (its process was killed) is left out."""
    open_: dict[str, tuple[str, str, int]] = {}
    found: list[Call] = []
    for place, line in enumerate(lines):
        text = line.rstrip("\n")
        if whole := _WHOLE.match(text):
            found.append(Call(whole[2], whole[3], whole[4], place, place))
        elif first := _FIRST.match(text):
            open_[first[1]] = first[2], first[3], place
        elif (second := _SECOND.match(text)) and second[1] in open_:
            name, args, begun = open_.pop(second[1])
            found.append(Call(name, args + second[3], second[4], begun, place))
        elif "+++" not in text and "resumed>" not in text:
            raise Unknown(f"line {place + 1} of the recording can't be read: {text[:200]}")
    return iter(sorted(found, key=lambda call: call.begun))


class Reader:
    """Turns calls into steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self._at: dict[str, int] = {}
        """Where a plain write() goes on, by path: nobody has a file open twice and writes so."""

    def steps(self, found: Iterator[Call]) -> Iterator[Step]:
        """All that is of interest, in the order in which it began."""
        for call in found:
            if call.result.startswith("-1") or call.result.startswith("?"):
                continue
            if call.name == "io_uring_setup":
                raise Unknown("the program uses io_uring, which strace doesn't show")
            yield from getattr(self, f"_{call.name}", self._other)(call)

    # places

    def _inside(self, path: str) -> str | None:
        if path == self.folder:
            return "."
        below = path[len(self.folder) + 1 :] if path.startswith(self.folder + "/") else None
        return None if below is None or below.split("/")[0].endswith(IGNORED) else below

    def _fd(self, args: str) -> tuple[str | None, bool]:
        """The path of the descriptor that stands first, and whether it has lost its name."""
        match = _FD.match(args)
        return (None, False) if match is None else (self._inside(_bytes(match[1]).decode()), match[2] is not None)

    def _names(self, call: Call) -> list[str | None]:
        """The paths among the arguments, absolute or beside the descriptor before them."""
        found = []
        for match in _TEXT.finditer(call.args):
            name = _bytes(match[1]).decode()
            base = re.search(r"(?:AT_FDCWD|\d+)<((?:\\x..)*)>, $", call.args[: match.start()])
            if not name.startswith("/") and base is None:
                raise Unknown(f"{call.name} of {name}: of what lies beside the program strace doesn't say where it is")
            name = os.path.join(_bytes(base[1]).decode() if base else "/", name)
            folder, last = os.path.split(os.path.normpath(name))
            found.append(self._inside(os.path.join(os.path.realpath(folder), last)))
        return found

    # calls

    def _other(self, call: Call) -> Iterator[Step]:
        text = "".join(map(str, (self._fd(call.args)[0], *self._names(call)))).replace("None", "")
        if text:
            raise Unknown(f"{call.name} of {text} isn't known: {call.args[:200]}")
        return iter(())

    def _openat(self, call: Call) -> Iterator[Step]:
        match = _FD.match(call.result)
        path = self._inside(_bytes(match[1]).decode()) if match else None
        if path is None or "O_DIRECTORY" in call.args:
            return
        if "O_APPEND" in call.args or "O_TMPFILE" in call.args:
            raise Unknown(f"{path} is opened with {call.args[-80:]}")
        self._at[path] = 0
        if "O_CREAT" in call.args or "O_TRUNC" in call.args:
            yield Step("open", call.begun, call.ended, path, at=int("O_TRUNC" in call.args))

    _open = _openat

    def _lseek(self, call: Call) -> Iterator[Step]:
        path, _ = self._fd(call.args)
        if path is not None:
            self._at[path] = int(call.result.split()[0])
        return iter(())

    def _write(self, call: Call) -> Iterator[Step]:
        data = b"".join(_bytes(match[1]) for match in _TEXT.finditer(call.args))
        if data.startswith(MARK):
            for text in data.decode().splitlines():
                yield Step("said", call.begun, call.ended, to=text[len(MARK) :])
            return
        path, nameless = self._fd(call.args)
        if path is not None:
            data = _written(data, call)
            at = self._at.get(path, 0)
            self._at[path] = at + len(data)
            yield Step("write", call.begun, call.ended, path, at=at, data=data, nameless=nameless)

    def _pwrite64(self, call: Call) -> Iterator[Step]:
        path, nameless = self._fd(call.args)
        if path is not None:
            data = _written(b"".join(_bytes(match[1]) for match in _TEXT.finditer(call.args)), call)
            at = int(call.args.rpartition(", ")[2])
            yield Step("write", call.begun, call.ended, path, at=at, data=data, nameless=nameless)

    _writev, _pwritev = _write, _pwrite64

    def _ftruncate(self, call: Call) -> Iterator[Step]:
        path, nameless = self._fd(call.args)
        if path is not None:
            size = int(call.args.rpartition(", ")[2])
            yield Step("size", call.begun, call.ended, path, at=size, nameless=nameless)

    def _fsync(self, call: Call) -> Iterator[Step]:
        path, nameless = self._fd(call.args)
        if path is not None:
            yield Step("sync", call.begun, call.ended, path, nameless=nameless)

    _fdatasync = _fsync

    def _pair(self, call: Call, kind: str) -> Iterator[Step]:
        old, new = self._names(call)
        if old is not None and new is not None:
            if kind == "rename" and old in self._at:
                self._at[new] = self._at.pop(old)
            yield Step(kind, call.begun, call.ended, old, to=new)
        elif old is not None or new is not None:
            raise Unknown(f"{call.name} leads into the folder or out of it: {old} {new}")

    def _rename(self, call: Call) -> Iterator[Step]:
        return self._pair(call, "rename")

    def _link(self, call: Call) -> Iterator[Step]:
        return self._pair(call, "link")

    _renameat = _renameat2 = _rename
    _linkat = _link

    def _one(self, call: Call, kind: str) -> Iterator[Step]:
        (path,) = self._names(call)
        if path is not None:
            yield Step(kind, call.begun, call.ended, path)

    def _unlink(self, call: Call) -> Iterator[Step]:
        return self._one(call, "unlink")

    def _mkdir(self, call: Call) -> Iterator[Step]:
        return self._one(call, "mkdir")

    _unlinkat = _rmdir = _unlink
    _mkdirat = _mkdir

    def _mmap(self, call: Call) -> Iterator[Step]:
        found = re.search(r"(MAP_SHARED\S*), (\d+<.*)$", call.args)
        path, _ = self._fd(found[2]) if found else (None, False)
        if path is not None and "PROT_WRITE" in call.args:
            raise Unknown(f"{path} is mapped for writing, which strace doesn't show")
        return iter(())


def _written(data: bytes, call: Call) -> bytes:
    """As much of it as the call says that it wrote."""
    if len(data) < int(call.result):
        raise Unknown(f"{call.name} wrote {call.result} bytes, of which the recording holds {len(data)}")
    return data[: int(call.result)]


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def steps(recording: Path, folder: Path) -> list[Step]:
    """What the recording says of the folder."""
    with recording.open(encoding="ascii") as file:
        return list(Reader(folder).steps(calls(file)))
