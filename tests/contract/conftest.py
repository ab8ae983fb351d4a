"""Every test of the contract is run against every store."""

import pytest

from nextdue.sqlite.inspect import check
from tests.contract.places import Place


@pytest.fixture(params=["sqlite"])
def place(request, tmp_path):
    place = Place(request.param, tmp_path)
    yield place
    findings = check(place.store.database)
    place.close()
    assert findings == []
