"""The address is checked when dialling: on every hop, for every resolved address, for literals too."""

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest

from apps.signal.tests.behaviours import answer, in_turn
from apps.signal.tests.fetching.conftest import LOOPBACK, Fetch
from apps.signal.tests.server import Server
from signal_feeds.fetching.addresses import Gate, refused
from signal_feeds.reasons import Failed

Fails = Callable[..., Failed]

REFUSED = (
    "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1 127.255.255.254 "
    "169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 "
    "198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 224.0.1.1 239.255.255.255 240.0.0.1 255.255.255.255 "
    "168.63.129.16 "
    ":: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b::8.8.8.8 64:ff9b::7f00:1 "
    "64:ff9b:1::1 100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::1 "
    "2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 "
)
GLOBAL = (
    "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 169.253.255.255 "
    "172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 "
    "2001:200::1 2001:4860:4860::8888 2606:4700:4700::1111 2a00:1450:4001::1 2400:cb00::1 "
)


@pytest.mark.parametrize("ip", REFUSED.split())
def test_refused(ip: str) -> None:
    assert refused(ip)


@pytest.mark.parametrize("ip", GLOBAL.split())
def test_global(ip: str) -> None:
    assert not refused(ip)


@pytest.mark.parametrize("ip", ["", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "010.0.0.1", "1.2.3.4.5", "::g"])
def test_what_is_no_address_is_refused(ip: str) -> None:
    assert refused(ip)


def test_what_is_allowed_is_exactly_what_is_named() -> None:
    allowed = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert not refused("127.9.9.9", allowed)
    assert not refused("fd00::1", allowed)
    for other in ("::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "10.0.0.1", "fe80::1"):
        assert refused(other, allowed)
    assert not refused("::ffff:127.0.0.1", [ip_network("::ffff:127.0.0.0/104")])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "127.1",
     "2130706433", "0x7f000001", "017700000001", "0x7f.1", "[64:ff9b::7f00:1]", "localhost.", "127.0.0.1."],
)  # fmt: skip
def test_nothing_of_this_machine_is_dialled(host: str, server: Server, fails: Fails) -> None:
    failed = fails(f"http://{host}:{server.port}/feed/1", client={"allow_net": ()})
    assert failed.reason in ("address_refused", "dns")
    assert server.connections.total() == 0


def test_each_hop_is_checked(server: Server, fails: Fails) -> None:
    """Allowed is 127.0.0.1 alone, and it leads to 127.0.0.2."""
    server.put("/a", in_turn(answer(b"", 302, location=server.url("/feed/1", "127.0.0.2"))))
    failed = fails(server.url("/a"), client={"allow_net": [ip_network("127.0.0.1")]})
    assert failed.reason == "address_refused"
    assert set(server.connections) == {"127.0.0.1"}


def test_a_redirect_by_name_is_checked_too(server: Server, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, {"inside.example": ["127.0.0.2"]})
    server.put("/a", answer(b"", 301, location=f"http://inside.example:{server.port}/feed/1"))
    assert fails(server.url("/a"), client={"allow_net": [ip_network("127.0.0.1")]}).reason == "address_refused"
    assert set(server.connections) == {"127.0.0.1"}


@pytest.mark.parametrize("order", [1, -1])
def test_every_resolved_address_is_checked(
    order: int, server: Server, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with one address inside among its own isn't dialled at all."""
    names(monkeypatch, {"two.example": ["127.0.0.1", "127.0.0.2"][::order]})
    client = {"allow_net": [ip_network("127.0.0.1")]}
    assert fails(f"http://two.example:{server.port}/feed/1", client=client).reason == "address_refused"
    assert server.connections.total() == 0


def test_a_second_answer_of_the_resolver_is_not_used(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is dialled: the name is asked once, whatever it would say the next time."""
    asked = names(monkeypatch, {"turns.example": ["127.0.0.1"]}, then={"turns.example": ["127.0.0.2"]})
    client = {"allow_net": [ip_network("127.0.0.1")]}
    assert fetch(f"http://turns.example:{server.port}/feed/1", client=client).status == 200
    assert asked == ["turns.example"]
    assert set(server.connections) == {"127.0.0.1"}


def test_names_are_asked_anew_each_time(server: Server, fails: Fails, fetch: Fetch, monkeypatch: Any) -> None:
    names(monkeypatch, {"turns.example": ["127.0.0.1"]}, then={"turns.example": ["127.0.0.2"]})
    client = {"allow_net": [ip_network("127.0.0.1")]}
    url = f"http://turns.example:{server.port}/feed/1"
    assert fetch(url, client=client).status == 200
    assert fails(url, client=client).reason == "address_refused"
    assert set(server.connections) == {"127.0.0.1"}


def test_the_next_address_is_tried(server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody listens at isn't the end."""
    names(monkeypatch, {"two.example": ["::1", "127.0.0.1"]})
    client = {"allow_net": [*LOOPBACK, ip_network("::1")]}
    assert fetch(f"http://two.example:{server.port}/feed/1", client=client).status == 200


@pytest.mark.parametrize("addresses", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]], ids=["one", "two"])
def test_a_resolver_that_checks_nothing_is_no_way_around(addresses: list[str], server: Server) -> None:
    """The socket itself is made only for a checked address."""

    class Lies(aiohttp.abc.AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
            more = {"hostname": host, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
            return [{"host": address, **more} for address in addresses]

        async def close(self) -> None: ...

    async def ask() -> None:
        gate = Gate([ip_network("127.0.0.1")])
        connector = aiohttp.TCPConnector(resolver=Lies(), socket_factory=gate.open, use_dns_cache=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            await session.get(f"http://lies.example:{server.port}/feed/1")

    # Of several addresses aiohttp makes a race, and forgets what a socket was refused for. Nothing is dialled.
    with pytest.raises(Exception, match="address_refused" if len(addresses) == 1 else None):
        asyncio.run(ask())
    assert server.connections.total() == 0


def test_a_name_without_an_address(server: Server, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, {"empty.example": []})
    assert fails(f"http://empty.example:{server.port}/feed/1").reason == "dns"


def names(monkeypatch: Any, first: dict[str, list[str]], then: dict[str, list[str]] | None = None) -> list[str]:
    """Let the system's resolver say so, and otherwise from the second question on. What it was asked."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any) -> list[Any]:
        table = then if then is not None and host in asked else first
        asked.append(host)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in table[host]
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked
