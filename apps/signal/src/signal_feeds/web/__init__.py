"""The pages: what was approved, what waits, how the sources are. Read-only, without scripts, for this machine."""

from collections.abc import Collection
from functools import partial
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from signal_feeds.web import feeds, pages
from signal_feeds.web.guard import Guard
from signal_feeds.web.health import healthz
from signal_feeds.web.view import Site, View, page

__all__ = ["Site", "application"]


def application(site: Site, names: Collection[str] = ()) -> ASGIApp:
    """The ASGI application. `names`: by which it may be called, beside localhost and addresses."""
    documents = {
        "/feed.atom": feeds.Document(site, "application/atom+xml", feeds.atom),
        "/feed.json": feeds.Document(site, "application/feed+json", feeds.json_feed),
        "/opml": feeds.Document(site, "text/x-opml", feeds.outlines),
    }
    routes = [
        Route("/", page(site, pages.entries)),
        Route("/sources", page(site, pages.sources)),
        Route("/source/{number}", page(site, pages.source)),
        Route("/queue", page(site, pages.queue)),
        Route("/entry/{number}", page(site, pages.entry)),
        Route("/search", page(site, pages.search)),
        *(Route(path, document.endpoint) for path, document in documents.items()),
        Route("/healthz", partial(healthz, site)),
        Route("/style.css", _file("style.css", "text/css")),
        Route("/icon.svg", _file("icon.svg", "image/svg+xml")),
        Route("/favicon.ico", _file("icon.svg", "image/svg+xml")),
    ]

    async def missing(request: Request, error: Exception) -> Response:
        return await run_in_threadpool(View(site, request, None).draw, "missing.html", 404)

    async def fault(request: Request, error: Exception) -> Response:
        return await run_in_threadpool(View(site, request, None).draw, "fault.html", 500)

    # Outside of everything, so that the page of a fault has its headers too.
    return Guard(Starlette(routes=routes, exception_handlers={404: missing, 500: fault}), names)


def _file(name: str, media_type: str) -> "partial[Response]":
    body = files(__name__).joinpath(name).read_bytes()
    return partial(_answer, body, media_type)


def _answer(body: bytes, media_type: str, request: Request) -> Response:
    return Response(body, media_type=media_type, headers={"Cache-Control": "max-age=300"})
