"""What holds for every answer: who may ask and how, and what a browser may do with it."""

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# No scripts, no frames, nothing from anywhere else: images of entries are links, so that reading tells nobody.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "interest-cohort=(), browsing-topics=()",
}


class Guard:
    """Answers 405 to all but GET and HEAD, 421 to a Host that isn't ours, and puts HEADERS on everything.

    `names`: by which this server may be called, beside localhost and any address of its own: a page of another site
    can point its own name at this machine (DNS rebinding), but it can't take an address for a name.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app, self.names = app, {name.lower().rstrip(".") for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        app: ASGIApp = self.app
        if len(hosts) != 1 or not self.is_ours(hosts[0]):
            app = PlainTextResponse("This server isn't known by that name.\n", 421)
        elif scope["method"] not in ("GET", "HEAD"):
            app = PlainTextResponse("These pages are read-only.\n", 405, {"Allow": "GET, HEAD"})
        await app(scope, receive, guarded)

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server: `name`, `name:port`, `1.2.3.4:port`, `[::1]:port`."""
        before, _, port = host.rpartition(":")
        name = (before if port.isdecimal() else host).lower().rstrip(".")
        if name in self.names:
            return True
        try:
            if name.startswith("[") and name.endswith("]"):
                return bool(ipaddress.IPv6Address(name[1:-1]))
            return bool(ipaddress.IPv4Address(name))
        except ValueError:
            return False
