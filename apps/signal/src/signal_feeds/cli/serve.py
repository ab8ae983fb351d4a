"""`signal serve`: the pages, on this machine."""

import ipaddress
import logging
import socket
from argparse import Namespace
from typing import Any

from signal_feeds.app import Signal
from signal_feeds.cli.output import complain, say
from signal_feeds.cli.parsers import command
from signal_feeds.errors import CannotServe
from signal_feeds.texts import say as words

HOST, PORT = "127.0.0.1", 8030
Commands = Any
"""What argparse's add_subparsers() answers: its type has no public name."""


def add_commands(commands: Commands) -> None:
    """Its words on the command line. It makes nothing, and its pages say so where there is nothing."""
    more = "They only show. Until Ctrl-C or SIGTERM, beside a worker or without one."
    parser = command(commands, "serve", "pages to read in a browser, on this machine", more)
    parser.add_argument("--port", type=int, default=PORT, help="%(default)s; 0: any that is free")
    parser.add_argument("--host", default=HOST, help="the address to listen on (%(default)s: this machine only)")
    parser.set_defaults(run=serve, makes=True)


def serve(signal: Signal, args: Namespace) -> int:
    """Serve the pages of a folder until it is interrupted. Raises CannotServe."""
    import uvicorn

    from signal_feeds.web import Site, application

    settings = signal.settings
    site = Site(signal.path, signal.lock, settings.language, settings.keep_approved, signal.now_ms)
    host, port = args.host, args.port
    listener = listening(host, port)
    address, actual = listener.getsockname()[:2]
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        complain(words(settings.language, "serve.open", address=address))
    shown = f"[{address}]" if ":" in address else address
    say(words(settings.language, "serve.pages", url=f"http://{shown}:{actual}/"))
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    config = uvicorn.Config(
        application(site, names={host, socket.gethostname()}),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=5,
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
    return 0


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises CannotServe."""
    if not 0 <= port <= 65_535:
        raise CannotServe("serve.port", port=port)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise CannotServe("serve.host", host=host, why=getattr(error, "strerror", None) or error) from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotServe("serve.busy", host=host, port=port, why=error.strerror) from None
    return listener
