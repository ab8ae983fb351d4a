"""`python -m bench [FIGURE...]`: measure, print one table. Run it from the top of the checkout."""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench import machine, report
from bench.figures import FIGURES
from bench.harness import Figure, Line, Run
from bench.rooms import base_folder

_SIDES = ("nextdue", "raw", "huey")


def _arguments() -> argparse.ArgumentParser:
    names = "\n".join(f"  {figure.name:10} {figure.about}" for figure in FIGURES)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"figures:\n{names}\n\nExit codes: 0 all measured, 1 a figure failed to run, 2 usage,"
        " 3 with --strict a figure fell short.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="only these (default: all)")
    parser.add_argument("--quick", action="store_true", help="one small noisy round: only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--strict", action="store_true", help="exit with 3 when a figure falls short")
    parser.add_argument(
        "--without", action="append", default=[], choices=_SIDES, metavar="SIDE",
        help=f"leave out one of {', '.join(_SIDES)} (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the random pauses and dues (default: 1)")
    return parser


def _chosen(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[Figure]:
    known = {figure.name: figure for figure in FIGURES}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(FIGURES)


def _sides(parser: argparse.ArgumentParser, without: Sequence[str]) -> frozenset[str]:
    sides = frozenset(_SIDES) - frozenset(without)
    for package in sides - {"raw"}:
        if importlib.util.find_spec(package) is None:
            parser.error(f"{package} is not installed here; install it, or say --without {package}")
    return sides


def _measure(figures: Sequence[Figure], run: Run) -> tuple[list[Line], dict[str, str]]:
    """One figure that fails to run must not cost the others theirs."""
    lines: list[Line] = []
    errors: dict[str, str] = {}
    for figure in figures:
        begun = time.monotonic()
        print(f"{figure.name:10} {figure.about} ...", end=" ", file=sys.stderr, flush=True)
        try:
            lines += figure.measure(run)
            print(f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
        except Exception as error:
            print("FAILED", file=sys.stderr)
            traceback.print_exc()
            errors[figure.name] = f"{type(error).__name__}: {error}"
    return lines, errors


def main() -> int:
    parser = _arguments()
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the bench reads /proc and inotify: it runs on Linux only")
    figures, sides = _chosen(parser, options.figures), _sides(parser, options.without)
    # so that the processes and folders of this run are cleared away on SIGTERM as on Ctrl-C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with base_folder() as base:
        about = machine.describe(base)
        lines, errors = _measure(figures, Run(options.quick, sides, base, options.seed))
    show = report.markdown if options.markdown else report.text
    print(show(lines, about, options.quick))
    for name, error in errors.items():
        print(f"{name}: could not be measured: {error}")
    if options.json:
        results = report.as_json(lines, about, options.quick, errors)
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if errors:
        return 1
    return 3 if options.strict and any(line.verdict == "short" for line in lines) else 0


sys.exit(main())
