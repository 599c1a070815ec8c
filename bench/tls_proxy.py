"""A process between the load generator and a broker: plain on one side, TLS or plain on the other.

    python -m bench.tls_proxy BROKER_PORT tls|plain

It prints the port on which it listens. The load generator speaks no TLS; the CPU of the broker is
measured, and the proxy only limits the rate.
"""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

CHUNK = 1 << 18


@contextmanager
def running_proxy(broker_port: int, *, tls: bool) -> Iterator[int]:
    """Start the process and give its port."""
    mode = "tls" if tls else "plain"
    argv = [sys.executable, "-m", "bench.tls_proxy", str(broker_port), mode]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _serve(broker_port: int, context: ssl.SSLContext | None) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker = await asyncio.open_connection("127.0.0.1", broker_port, ssl=context)
        await asyncio.gather(_copy(reader, to_broker[1]), _copy(to_broker[0], writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(broker_port: str, mode: str) -> None:
    """Run until the process is killed."""
    context = None
    if mode == "tls":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    uvloop.run(_serve(int(broker_port), context))


if __name__ == "__main__":
    main(*sys.argv[1:])
