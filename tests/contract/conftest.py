"""Every test of the contract is run against every store; child processes are there as one asks for them."""

import os
from collections.abc import Iterator

import pytest

from nextdue.sqlite.inspect import check
from tests.contract.places import Place
from tests.contract.rig import Rig
from tests.process.harness import children


@pytest.fixture(params=["sqlite"])
def place(request, tmp_path):
    place = Place(request.param, tmp_path)
    yield place
    findings = check(place.store.database)
    place.close()
    assert findings == []


@pytest.fixture
def rig() -> Iterator:
    rigs: list[Rig] = []

    def make(*args, **options) -> Rig:
        rigs.append(Rig(*args, **options))
        return rigs[-1]

    yield make
    for made in rigs:
        made.executor.close()
    assert children(os.getpid()) == []
