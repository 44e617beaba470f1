"""Clients against a loopback server with rate limits: answered prompts, time and number of requests.

Each row is a type of limit and of reporting it. The ideal is the time that the limit itself requires for all prompts;
the clock starts after imports and first connections. A minute is shortened, for server and client alike, so that the
table takes minutes instead of hours.

    python -m perf.rate_limits [--minute 12] [--prompts 1000] [--limit 500] [--tokens] [--style NAME ...] [--kind NAME]
        [--client ours|sdk|tenacity ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import time
from functools import partial
from typing import Any

from tests.clients._limits import STYLES, Bucket, FixedWindow, Limit, SlidingWindow, refusal_body

_BODY = json.dumps(
    {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "8"}}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 50},
    }
).encode()
_KINDS: dict[str, type[FixedWindow] | type[SlidingWindow] | type[Bucket]] = {
    "window": FixedWindow,
    "sliding": SlidingWindow,
    "bucket": Bucket,
}
_TOKENS = 100  # tokens of an average request, for limits of tokens
_WARM = "warm"


def tokens_of(number: int) -> int:
    """Return the tokens of a prompt and its reply: 50 to 150, 100 on average."""
    return 50 + number * 37 % 101


def limits_tokens(style: str, options: argparse.Namespace) -> bool:
    """Return whether tokens are limited."""
    return options.tokens or "tokens" in style


def serve(kind: str, style: str, options: argparse.Namespace, port: Any) -> None:
    """Limit requests, forever."""
    of_tokens = limits_tokens(style, options)
    limit: Limit = _KINDS[kind](options.limit * (_TOKENS if of_tokens else 1), options.minute)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                sent = await reader.readexactly(int(request.split("content-length: ")[1].split("\r\n")[0]))
                prompt = json.loads(sent)["messages"][-1]["content"]
                if prompt == _WARM:
                    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(_BODY)}\r\n\r\n".encode() + _BODY)
                    continue
                state = limit.take(time.monotonic(), tokens_of(int(prompt)) if of_tokens else 1)
                await asyncio.sleep((options.latency if state.granted else 0.05) * options.minute / 60)
                granted = f"Limit {options.limit}, Used {options.limit}, Requested 1"
                body = _BODY if state.granted else refusal_body(state, style, granted)
                head = {"Content-Length": str(len(body)), **STYLES[style](state)}
                lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                status = "200 OK" if state.granted else "429 Too Many Requests"
                writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def ask_plainly(client: str, url: str, options: argparse.Namespace, together: Any, done: Any) -> None:
    """Send all prompts by the SDK, 64 at a time, with its own retries or tenacity's; put the same result as `ask`."""
    import openai
    import tenacity

    scale = options.minute / 60
    n_requests = [0]

    class _Counted(openai.DefaultAsyncHttpxClient):
        async def send(self, *arguments: Any, **others: Any) -> Any:
            n_requests[0] += 1
            return await super().send(*arguments, **others)

    async def run() -> tuple[int, float]:
        retries = 10 if client == "sdk" else 0
        sdk = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=retries, http_client=_Counted())
        waits = tenacity.wait_random_exponential(multiplier=scale, max=60 * scale)
        stop = tenacity.stop_after_attempt(20)
        retry = tenacity.retry_if_exception_type(openai.RateLimitError)
        slots = asyncio.Semaphore(64)

        async def answer(prompt: str) -> bool:
            async def once() -> Any:
                return await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])

            async with slots:
                try:
                    is_ours = client == "tenacity"
                    await (tenacity.AsyncRetrying(wait=waits, stop=stop, retry=retry)(once) if is_ours else once())
                except (openai.OpenAIError, tenacity.RetryError):
                    return False
            return True

        await answer(_WARM)
        n_requests[0] = 0
        together.wait()
        begin = time.monotonic()
        answered = await asyncio.gather(*(answer(str(number)) for number in range(options.prompts)))
        return sum(answered), time.monotonic() - begin

    n_answered, seconds = asyncio.run(run())
    done.put((n_answered, seconds, n_requests[0]))


def ask(url: str, options: argparse.Namespace, together: Any, done: Any) -> None:
    """Send all prompts by our client; put (answered, seconds, requests) into `done`."""
    from ragtasks.clients import OpenAIClient, Outcome, Prompt
    from ragtasks.clients import _limits as limiter
    from ragtasks.errors import JudgeError

    limiter.WINDOW_SECONDS = options.minute
    n_requests = [0]
    admit = limiter.Limiter.admit

    async def counted(self: Any, n_tokens: int) -> Any:
        ticket = await admit(self, n_tokens)
        n_requests[0] += 1
        return ticket

    limiter.Limiter.admit = counted  # type: ignore[method-assign]
    OpenAIClient({"model": "m", "base_url": url}).answer([Prompt.of(_WARM)])  # imports, certificates
    n_requests[0] = 0
    prompts = [Prompt.of(str(number)) for number in range(options.prompts)]
    together.wait()
    begin = time.monotonic()
    try:
        replies = OpenAIClient({"model": "m", "base_url": url}).answer(prompts)
        n_answered = sum(reply.outcome is Outcome.ANSWERED for reply in replies)
    except JudgeError as error:
        print(error)
        n_answered = 0
    done.put((n_answered, time.monotonic() - begin, n_requests[0]))


def measure(kind: str, style: str, n_processes: int, client: str, options: argparse.Namespace) -> str:
    """Return one row of the table."""
    context = multiprocessing.get_context("spawn")
    port, done, together = context.Queue(), context.Queue(), context.Barrier(n_processes)
    server = context.Process(target=serve, args=(kind, style, options, port), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{port.get()}/v1"
    target = ask if client == "ours" else partial(ask_plainly, client)
    askers = [context.Process(target=target, args=(url, options, together, done)) for _ in range(n_processes)]
    for asker in askers:
        asker.start()
    results = [done.get() for _ in askers]
    for asker in askers:
        asker.join()
    server.terminate()
    server.join()
    total = n_processes * options.prompts
    cost = sum(map(tokens_of, range(options.prompts))) / _TOKENS if limits_tokens(style, options) else options.prompts
    excess = n_processes * cost - options.limit  # the first requests pass at once
    ideal = options.minute * (excess / options.limit if kind == "bucket" else math.ceil(excess / options.limit))
    last = min(64 * n_processes, options.limit) / (options.latency * options.minute / 60)  # a second, all slots busy
    ideal += 0 if kind == "bucket" else (excess - 1) % options.limit / last
    seconds = max(row[1] for row in results)
    n_answered, n_requests = sum(row[0] for row in results), sum(row[2] for row in results)
    style += ", a limit of tokens" if options.tokens else ""
    return (
        f"| {client} | {kind} | {style} | {n_processes} | {n_answered} of {total} | {ideal:.1f} | {seconds:.1f} | "
        f"{seconds / ideal:.2f} | {n_requests / total:.3f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minute", type=float, default=12.0, help="length of a minute in seconds")
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--latency", type=float, default=1.0, help="time of a reply, in seconds of a full minute")
    parser.add_argument("--tokens", action="store_true", help="limit tokens, with any headers")
    parser.add_argument("--style", action="append", choices=list(STYLES))
    parser.add_argument("--kind", action="append", choices=list(_KINDS))
    parser.add_argument("--processes", type=int, action="append")
    parser.add_argument("--client", action="append", choices=["ours", "sdk", "tenacity"])
    options = parser.parse_args()
    print(
        "| client | limit | reported in | processes | answered | ideal, s | actual, s | x ideal | requests per prompt |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in options.kind or _KINDS:
        for n_processes in options.processes or (1, 2):
            for style in options.style or STYLES:
                for client in options.client or ["ours"]:
                    print(measure(kind, style, n_processes, client, options), flush=True)


if __name__ == "__main__":
    main()
