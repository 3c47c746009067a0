"""A frontend's process: one protocol on one port, until it is told to stop.

python -m rosa_server.frontends.process --spec '{"name": ..., "frontend": {...}, "gateway": ...}'
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import ssl
import sys
import time
from collections.abc import Sequence
from typing import Any

from rosa_contract.config.frontends import OPENPI
from rosa_contract.errors import ContractError
from rosa_contract.process import die_with
from rosa_server.frontends.clients import Clients, tell
from rosa_server.frontends.spec import FrontendSpec, spec_from
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import MISCONFIGURED

REPORT_EVERY_S = 0.5


async def run(spec: FrontendSpec, stop: asyncio.Event) -> None:
    """Serve until `stop`. Raises `OSError` where it cannot listen, and `ContractError`."""
    clients = Clients(spec)
    server = await _listen(clients)
    host, port = server.sockets[0].getsockname()[:2]
    log.event(
        "frontend_listening", frontend=spec.name, protocol=spec.frontend.protocol, address=f"{host}:{port}"
    )
    tell(spec, {"listening": f"{host}:{port}"})
    gc.freeze()
    try:
        while not stop.is_set():
            clients.report(time.monotonic())
            try:
                async with asyncio.timeout(REPORT_EVERY_S):
                    await stop.wait()
            except TimeoutError:
                continue
    finally:
        server.close()
        clients.close()
        await server.wait_closed()


async def _listen(clients: Clients) -> Any:
    """The protocol's listening socket: what it has of `asyncio.Server` is `sockets`, `close` and `wait_closed`."""
    if clients.spec.frontend.protocol == OPENPI:
        from rosa_server.frontends.openpi import OpenpiServer

        return await OpenpiServer(clients).listen()
    from rosa_server.frontends.gr00t import Gr00tServer

    return await Gr00tServer(clients).listen()


async def _main(spec: FrontendSpec) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await run(spec, stop)
    except (ContractError, OSError, ssl.SSLError) as error:
        log.error("frontend_misconfigured", frontend=spec.name, reason=str(error))
        tell(spec, {"failed": str(error)})
        return MISCONFIGURED
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="rosa_server.frontends.process", description="one frontend of a ROSA server"
    )
    parser.add_argument("--spec", required=True, help="FrontendSpec as JSON")
    spec = spec_from(parser.parse_args(argv).spec)
    if spec.parent_pid:
        die_with(spec.parent_pid)
    # Ctrl-C reaches the whole process group; the server then stops its frontends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.to_stderr(descriptor=spec.log_fd)
    return asyncio.run(_main(spec))


if __name__ == "__main__":
    sys.exit(main())
