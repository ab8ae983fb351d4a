"""Tasks that come after others: two downloads, then their import, then a report."""

from pathlib import Path

from nextdue import Context, Nextdue, Retry

HERE = Path(__file__).parent
nd = Nextdue(HERE / "chain.db")


@nd.task(keep_result=True, retry=Retry(base="1s", limit=5))
def download(shop: str) -> str:
    file = HERE / f"{shop}.csv"
    file.write_text(f"{shop},1\n{shop},2\n")
    return file.name


@nd.task(keep_result=True)
def load(ctx: Context) -> int:
    return sum(len((HERE / name).read_text().splitlines()) for name in ctx.results)


@nd.task
def report(ctx: Context) -> None:
    print("imported", ctx.results[0], "orders")


if __name__ == "__main__":
    files = download.enqueue_many([("berlin",), ("paris",)])
    loaded = load.using(after=files).enqueue()  # nothing of it starts before both files are there
    last = report.using(after=loaded, if_dead="cancel").enqueue()
    with nd.working():
        print(last.wait("10s"))
