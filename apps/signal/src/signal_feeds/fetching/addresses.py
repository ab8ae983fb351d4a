"""Which addresses may be dialled, and the place where every one is checked before it is."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from signal_feeds.reasons import Failed

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Info = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
"""As of getaddrinfo: family, type, protocol, canonical name, address of the socket."""

# Python's own is_global differs from release to release. These are IANA's special-purpose registries, and multicast.
_NOT_GLOBAL_4 = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 "
    "168.63.129.16/32"  # global by its number, but of the machine below every one in Azure
)
_GLOBAL_6 = IPv6Network("2000::/3")
"""All else is loopback, mapped (::ffff:0:0/96), NAT64 (64:ff9b::/96, 64:ff9b:1::/48), local or unassigned."""
_NOT_GLOBAL_6 = "2001::/23 2001:db8::/32 2002::/16 3fff::/20"
"""Within it: Teredo and other protocols, documentation, 6to4, documentation."""
_REFUSED_4 = tuple(IPv4Network(text) for text in _NOT_GLOBAL_4.split())
_REFUSED_6 = tuple(IPv6Network(text) for text in _NOT_GLOBAL_6.split())


def refused(ip: str | Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether an address may not be dialled: it isn't global, or hides an IPv4 address, and `allowed` doesn't name it.

    What isn't an address is refused.

    >>> refused("127.0.0.1"), refused("::ffff:8.8.8.8"), refused("8.8.8.8")
    (True, True, False)
    >>> refused("127.0.0.1", [IPv4Network("127.0.0.0/8")])
    False
    """
    try:
        address = ip_address(ip.partition("%")[0]) if isinstance(ip, str) else ip
    except ValueError:
        return True
    if any(address in network for network in allowed):
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in _REFUSED_4)
    return address not in _GLOBAL_6 or any(address in network for network in _REFUSED_6)


class Gate(AbstractResolver):
    """Names to addresses, and addresses to sockets: nothing is dialled that didn't pass `refused` here.

    A name with one refused address among its own isn't dialled at all. Each address is checked again as a socket is
    made for it, so that it doesn't matter where it came from: a literal, an answer that changed, a redirect.
    """

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = tuple(allowed)

    def check(self, ip: str) -> None:
        """Raises Failed('address_refused')."""
        if refused(ip, self._allowed):
            raise Failed("address_refused")

    def open(self, info: Info) -> socket.socket:
        """The socket that will be connected to info's address and to no other."""
        family, kind, protocol, _, address = info
        self.check(address[0])
        return socket.socket(family, kind, protocol)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError, and Failed('address_refused')."""
        found: list[ResolveResult] = []
        for kind, _, protocol, _, address in await _look_up(host, port, family):
            ip = str(address[0])
            self.check(ip)
            found.append({"hostname": host, "host": ip, "port": port, "family": kind, "proto": protocol, "flags": 0})
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return found

    async def close(self) -> None:
        """Nothing is held."""


async def _look_up(host: str, port: int, family: int) -> list[Any]:
    """getaddrinfo in a daemon thread: it can't be cancelled, and in a pool it would hold others up, or the exit."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def settle(found: list[Any] | OSError) -> None:
        if answer.cancelled():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[Any] | OSError
        try:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        except OSError as error:
            found = error
        except ValueError as error:  # a label of more than 63 characters, or of none
            found = socket.gaierror(socket.EAI_NONAME, str(error))
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, and nobody waits
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return await answer
