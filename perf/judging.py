"""Prompts per second against a loopback endpoint: ours, the SDK alone, bare aiohttp, and sequential requests.

The server runs in its own process and answers each request after a fixed latency. The ideal is latency x ceil(prompts /
slots). Bare aiohttp is the minimum for this transport and server; the remaining gap is the client's own cost. The cold
row includes costs paid once per process: importing the SDK and preparing TLS. Wall-clock times grow with other load on
the machine; CPU time per request, of client and server separately, barely does.

    python perf/judging.py [--prompts 842] [--slots 64] [--latency 0.2] [--repeats 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ragtasks.clients import CachedClient, OpenAIClient, Outcome, Prompt, ReplyCache

_BODY = json.dumps(
    {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "8"}}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 1},
    }
).encode()
_N_ONE_BY_ONE = 10


def serve(latency: float, port: Any) -> None:
    """Answer every request after `latency` seconds, forever; put (port, CPU seconds so far) into `port`."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(request.split("content-length: ")[1].split("\r\n")[0]))
                await asyncio.sleep(latency)
                writer.write(head + _BODY)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
        port.put((server.sockets[0].getsockname()[1], time.process_time()))
        await server.serve_forever()

    asyncio.run(run())


def ours(url: str, prompts: list[Prompt], slots: int) -> None:
    replies = OpenAIClient({"model": "m", "base_url": url, "slots": slots}).answer(prompts)
    assert all(reply.outcome is Outcome.ANSWERED for reply in replies)


def ours_cached(url: str, prompts: list[Prompt], slots: int) -> None:
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": url, "slots": slots}), cache)
        client.answer(prompts)
        assert len(cache) == len(prompts)


def sdk(url: str, prompts: list[Prompt], slots: int, transport: str | None = None) -> None:
    """The SDK on its default transport, as in its documentation."""
    import openai

    options = {} if transport is None else {"http_client": getattr(openai, transport)()}

    async def run() -> None:
        gate = asyncio.Semaphore(slots)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, **options) as client:

            async def ask(prompt: Prompt) -> None:
                async with gate:
                    await client.chat.completions.create(model="m", messages=prompt.payload(), max_tokens=1024)

            await asyncio.gather(*(ask(prompt) for prompt in prompts))

    asyncio.run(run())


def sdk_on_aiohttp(url: str, prompts: list[Prompt], slots: int) -> None:
    """The SDK on aiohttp, as in its documentation."""
    sdk(url, prompts, slots, "DefaultAioHttpClient")


def bare_aiohttp(url: str, prompts: list[Prompt], slots: int) -> None:
    """The minimum cost of a client on this transport."""
    import aiohttp

    async def run() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=slots)) as session:

            async def ask(prompt: Prompt) -> None:
                body = {"model": "m", "messages": prompt.payload()}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    await response.json()

            await asyncio.gather(*(ask(prompt) for prompt in prompts))

    asyncio.run(run())


PEERS: dict[str, Callable[[str, list[Prompt], int], None]] = {
    "ours": ours,
    "ours, cached": ours_cached,
    "openai, httpx": sdk,
    "openai, aiohttp": sdk_on_aiohttp,
    "bare aiohttp": bare_aiohttp,
}


class Timed(NamedTuple):
    """Times of one execution."""

    seconds: float
    processor_seconds: float


def timed(work: Callable[[], None]) -> Timed:
    begin, begin_processor = time.perf_counter(), time.process_time()
    work()
    return Timed(time.perf_counter() - begin, time.process_time() - begin_processor)


def row(name: str, runs: list[Timed], n_prompts: int, ideal: float) -> str:
    times = [run.seconds for run in runs]
    median = statistics.median(times)
    milliseconds = statistics.median(run.processor_seconds for run in runs) / n_prompts * 1e3
    return (
        f"{name:16} {median:6.2f} s  {median / ideal:5.2f} x ideal  (min {min(times):.2f}, max {max(times):.2f})"
        f"  {milliseconds:5.2f} ms processor a request"
    )


def main() -> None:
    """Time the clients alternately and print medians and their ratio to the ideal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=842)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ideal = options.latency * math.ceil(options.prompts / options.slots)
    prompts = [Prompt.of(f"prompt {number} " + "words of a passage " * 100) for number in range(options.prompts)]
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(options.latency, port), daemon=True)
    server.start()
    number, before_serving = port.get()
    url = f"http://127.0.0.1:{number}/v1"
    load = os.getloadavg()[0]
    cold = timed(lambda: ours(url, prompts, options.slots))
    runs: dict[str, list[Timed]] = {name: [] for name in PEERS}
    for _ in range(options.repeats):
        for name, peer in PEERS.items():
            runs[name].append(timed(lambda peer=peer: peer(url, prompts, options.slots)))
    one_by_one = timed(lambda: ours(url, prompts[:_N_ONE_BY_ONE], 1)).seconds * options.prompts / _N_ONE_BY_ONE
    server.terminate()
    server.join()
    served = resource.getrusage(resource.RUSAGE_CHILDREN)
    n_served = options.prompts * (1 + options.repeats * len(PEERS)) + _N_ONE_BY_ONE
    serving = (served.ru_utime + served.ru_stime - before_serving) / n_served * 1e3
    print(f"{options.prompts} prompts, {options.slots} slots, {options.latency} s latency: ideal {ideal:.2f} s")
    print(f"load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors")
    print(row("ours, cold", [cold], options.prompts, ideal))
    for name, timings in runs.items():
        print(row(name, timings, options.prompts, ideal))
    print(f"{'one by one':16} {one_by_one:6.2f} s  {one_by_one / ideal:5.2f} x ideal  (from {_N_ONE_BY_ONE} prompts)")
    print(f"{'the server':16} {serving:.2f} ms processor a request")


if __name__ == "__main__":
    main()
