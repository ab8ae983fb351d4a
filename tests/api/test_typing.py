"""What a type checker knows of tasks, however they are declared."""

import re
import subprocess
import sys

SHOP = """
from nextdue import Context, Cron, Every, Nextdue

nd = Nextdue("shop.db")

@nd.task
def plain(a: int, b: str = "") -> int: ...

@nd.task(keep_result=True)
def options(a: int, b: str = "") -> int: ...

@nd.task(keep_result=True)
def context(ctx: Context, a: int) -> list[str]: ...

@nd.task(keep_result=True)
async def coroutine(ctx: Context, a: int) -> bool: ...

@nd.every("30m")
def every() -> int: ...

@nd.cron("0 6 * * *", key="us", args=("us",))
@nd.cron("0 6 * * *", key="eu", args=("eu",))
def cron(ctx: Context, region: str) -> list[str]: ...

@nd.schedule(Cron("0 6 * * *"))
async def schedule(a: int = 1) -> bool: ...

@nd.every("30m")
@nd.schedule(Every("1d"), key="daily", keep_result=True)
async def twice(ctx: Context, a: int = 1) -> bool: ...

@nd.every("1h")
@nd.task(keep_result=True)
def declared(ctx: Context, a: int = 1) -> int: ...

@nd.on_demand("1m", keep_result=True)
def demand(a: str) -> int: ...

@nd.on_demand("1m")
async def coroutines_demand(ctx: Context, a: str) -> int: ...

reveal_type(plain(1))
reveal_type(options.enqueue(1, b="x").result())
reveal_type(options.using(delay=5).enqueue(1).result("1m"))
reveal_type(context(1))
reveal_type(context.enqueue(1).result())
reveal_type(context.enqueue_many([(1,)])[0].result())
reveal_type(coroutine(1))
reveal_type(coroutine.enqueue(1).result())

async def main() -> None:
    reveal_type(await options.enqueue(1))
    reveal_type(await (await coroutine.aenqueue(1)))

reveal_type(every())
reveal_type(cron("us"))
reveal_type(cron.enqueue("us").result())
reveal_type(schedule(2))
reveal_type(schedule.enqueue(2).result())
reveal_type(twice(2))
reveal_type(twice.using(delay=5).enqueue(2).result())
reveal_type(declared(2))
reveal_type(declared.enqueue(a=2).result())
reveal_type(demand.using(delay="1d").enqueue("x").result())
reveal_type(coroutines_demand("x"))
reveal_type(coroutines_demand.enqueue("x").result())

plain.enqueue("1")
options.enqueue("1")
options.using().enqueue(1, c=3)
context.enqueue()
coroutine("1")
every.enqueue(1)
cron(1)
schedule.enqueue("1")
twice("1")
declared.enqueue(b=1)
demand.enqueue(1)
coroutines_demand()
"""
REVEALED = [
    *("int", "int", "int", "list[str]", "list[str]", "list[str]"),
    *("typing.Coroutine[Any, Any, bool]", "bool", "int", "bool"),
    *("int", "list[str]", "list[str]"),
    *("typing.Coroutine[Any, Any, bool]", "bool", "typing.Coroutine[Any, Any, bool]", "bool"),
    *("int", "int", "int", "typing.Coroutine[Any, Any, int]", "int"),
]
NOISE = ("[empty-body]", "[unused-coroutine]")
WRONG = [
    *("arg-type", "arg-type", "call-arg", "call-arg", "arg-type"),
    *("call-arg", "arg-type", "arg-type", "arg-type", "call-arg", "arg-type", "call-arg"),
]


def test_arguments_and_results_keep_their_types(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    command = [sys.executable, "-m", "mypy", "--config-file", "", "--strict", "--cache-dir", str(tmp_path / "cache")]
    said = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert [text.replace("builtins.", "") for text in revealed] == REVEALED, said
    wrong = [line for line in said.splitlines() if " error: " in line and not line.endswith(NOISE)]
    assert [line.rpartition("[")[2].rstrip("]") for line in wrong] == WRONG, said
