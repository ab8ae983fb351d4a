"""Runs the python and sql blocks of one page in order, in the current directory: `python run_page.py PAGE`.

Those that are files of tests, as their first line says, are run by pytest: see tests/kit/test_page.py.
"""

import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.pages import blocks


def main(page: Path) -> None:
    # The directory is the program's own, as if its text were the file shop.py there.
    names: dict = {"__name__": "__main__", "__file__": str(Path("shop.py").absolute())}
    for block in blocks(page):
        if block.language == "python" and not block.code.startswith("# test_"):
            # Empty lines before it make a traceback name the line of the page.
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
        elif block.language == "sql":
            connection = sqlite3.connect(names["nd"].path)
            with connection:
                connection.executescript(block.code)
            connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
