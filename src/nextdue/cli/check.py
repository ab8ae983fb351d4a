"""`nextdue check`: the fsck of the tables."""

import argparse

from nextdue.cli import render, target
from nextdue.sqlite import inspect


def check(args: argparse.Namespace) -> int:
    """Look for broken rows; exit code 1 if there are any."""
    where = target.find(args.target)
    store = where.look()
    try:
        findings = inspect.check(store.database)
    finally:
        store.close()
    if args.json:
        render.document({"path": str(where.path), "findings": findings})
    else:
        for finding in findings:
            print(render.clean(finding))
        print(f"{where.path}: {render.counted(len(findings), 'finding') if findings else 'sound'}")
    return 1 if findings else 0
