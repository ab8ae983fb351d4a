"""What a type checker knows of tasks, however they are declared."""

import re
import subprocess
import sys

SHOP = """
from nextdue import Context, Nextdue

nd = Nextdue("shop.db")

@nd.task
def plain(a: int, b: str = "") -> int: ...

@nd.task(keep_result=True)
def options(a: int, b: str = "") -> int: ...

@nd.task(keep_result=True)
def context(ctx: Context, a: int) -> list[str]: ...

@nd.task(keep_result=True)
async def coroutine(ctx: Context, a: int) -> bool: ...

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

plain.enqueue("1")
options.enqueue("1")
options.using().enqueue(1, c=3)
context.enqueue()
coroutine("1")
"""
REVEALED = [
    *("int", "int", "int", "list[str]", "list[str]", "list[str]"),
    *("typing.Coroutine[Any, Any, bool]", "bool", "int", "bool"),
]
NOISE = ("[empty-body]", "[unused-coroutine]")
WRONG = ["arg-type", "arg-type", "call-arg", "call-arg", "arg-type"]


def test_arguments_and_results_keep_their_types(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    command = [sys.executable, "-m", "mypy", "--config-file", "", "--strict", "--cache-dir", str(tmp_path / "cache")]
    said = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert [text.replace("builtins.", "") for text in revealed] == REVEALED, said
    wrong = [line for line in said.splitlines() if " error: " in line and not line.endswith(NOISE)]
    assert [line.rpartition("[")[2].rstrip("]") for line in wrong] == WRONG, said
