"""Prompts a second against a loopback endpoint, side by side in one run: ours, the SDK alone, bare aiohttp, one by one.

The server answers each request after a fixed latency, in a process of its own. The ideal is latency x ceil(prompts /
slots). The cold row holds what is paid once in a process: importing the SDK and preparing TLS.

    python benchmarks/judging.py [--prompts 300] [--slots 64] [--latency 0.2] [--repeats 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragtasks.clients.openai_client import OpenAIClient
from ragtasks.clients.protocol import Outcome, Prompt
from ragtasks.clients.reply_cache import CachedClient, ReplyCache

_BODY = json.dumps(
    {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "8"}}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 1},
    }
).encode()
_N_ONE_BY_ONE = 10


def serve(latency: float, port: Any) -> None:
    """Answer every request after `latency` seconds, for ever; put the port into `port`."""
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
        port.put(server.sockets[0].getsockname()[1])
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


def sdk(url: str, prompts: list[Prompt], slots: int) -> None:
    """The SDK on its default transport, as its documentation shows."""
    import openai

    async def run() -> None:
        gate = asyncio.Semaphore(slots)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

            async def ask(prompt: Prompt) -> None:
                async with gate:
                    await client.chat.completions.create(model="m", messages=prompt.payload(), max_tokens=1024)

            await asyncio.gather(*(ask(prompt) for prompt in prompts))

    asyncio.run(run())


def bare_aiohttp(url: str, prompts: list[Prompt], slots: int) -> None:
    """The least that any client on this transport must spend."""
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
    "bare aiohttp": bare_aiohttp,
}


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Time the peers in turn and print medians and their ratio to the ideal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=300)
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
    url = f"http://127.0.0.1:{port.get()}/v1"
    cold = seconds(lambda: ours(url, prompts, options.slots))
    times: dict[str, list[float]] = {name: [] for name in PEERS}
    for _ in range(options.repeats):
        for name, peer in PEERS.items():
            times[name].append(seconds(lambda peer=peer: peer(url, prompts, options.slots)))
    one_by_one = seconds(lambda: ours(url, prompts[:_N_ONE_BY_ONE], 1)) * options.prompts / _N_ONE_BY_ONE
    server.terminate()
    print(f"{options.prompts} prompts, {options.slots} slots, {options.latency} s latency: ideal {ideal:.2f} s")
    print(f"{'ours, cold':14} {cold:6.2f} s  {cold / ideal:5.2f} x ideal")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:14} {median:6.2f} s  {median / ideal:5.2f} x ideal  (min {min(found):.2f}, max {max(found):.2f})")
    print(f"{'one by one':14} {one_by_one:6.2f} s  {one_by_one / ideal:5.2f} x ideal  (from {_N_ONE_BY_ONE} prompts)")


if __name__ == "__main__":
    main()
