"""Downloads from a loopback server that fails in every way observed on real servers."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks.download import (
    RECORD_NAME,
    FileStatus,
    Limits,
    adopt,
    exclusive_writer,
    fetch,
    verify,
)
from ragtasks.benchmarks.sources import Source, SourceFile, locate
from ragtasks.errors import ConfigurationError, FetchError
from tests._messages import raises
from tests.benchmarks._server import (
    FileServer,
    chunked,
    compressed,
    drop_after,
    hang_after,
    ignore_range,
    instead,
    serving,
    status,
    unmeasured,
    wrong_range,
)

PINNED = "human/tasks.jsonl"
FREE = "human/reference+RAG.jsonl"
FREE_PATTERN = re.escape(FREE)
BODY = random.Random(7).randbytes(200_000)
FREE_BODY = random.Random(8).randbytes(90_000)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 200000\n"
QUICK = Limits(timeout_seconds=10.0, retries=2, backoff_seconds=0.01)
REPOSITORY = Path(__file__).resolve().parents[3]


def make_source(commit: str = "0123456789abcdef") -> Source:
    return Source(
        name="toy",
        folder="toy-benchmark",
        marker="human",
        repository="https://example.org/toy",
        commit=commit,
        base_url="http://127.0.0.1:9/",
        files=(
            SourceFile(PINNED, hashlib.sha256(BODY).hexdigest(), len(BODY), "tasks"),
            SourceFile(FREE, None, None, "extra"),
        ),
    )


TOY = make_source()


@pytest.fixture(scope="module", autouse=True)
def _no_proxy() -> Iterator[None]:
    """Requests to the loopback server must bypass a proxy from the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        yield


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({PINNED: BODY, FREE: FREE_BODY}) as files:
        yield files


def target(data_dir: Path, path: str = PINNED) -> Path:
    return data_dir / TOY.folder / path


def part(data_dir: Path, path: str = PINNED) -> Path:
    final = target(data_dir, path)
    return final.with_name(f"{final.name}.{TOY.commit[:8]}.part")


def test_a_downloaded_file_is_complete_and_not_requested_again(server: FileServer, tmp_path: Path) -> None:
    first = fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    again = fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert target(tmp_path).read_bytes() == BODY
    assert (first.root, first.downloaded, first.n_bytes) == (tmp_path / TOY.folder, [PINNED], len(BODY))
    assert (again.already_there, again.downloaded, again.n_bytes) == ([PINNED], [], 0)
    assert server.log == [(PINNED, None)]
    assert list(target(tmp_path).parent.iterdir()) == [target(tmp_path)]


def test_a_file_with_an_address_of_its_own_is_fetched_from_there(server: FileServer, tmp_path: Path) -> None:
    own = replace(TOY, files=(replace(TOY.files[0], base_url=server.url), TOY.files[1]))
    assert fetch(own, tmp_path, limits=QUICK).downloaded == [PINNED]
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:9"):
        fetch(own, tmp_path, groups=["extra"], limits=Limits(retries=0))


def test_a_checkout_is_completed_in_place(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / TOY.marker).mkdir()
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).root == tmp_path == locate(TOY, tmp_path)
    assert (tmp_path / PINNED).read_bytes() == BODY


def test_no_group_sends_no_request_and_an_unknown_group_lists_close_matches(server: FileServer, tmp_path: Path) -> None:
    assert fetch(TOY, tmp_path, groups=(), base_url=server.url).already_there == []
    with pytest.raises(ConfigurationError, match="did you mean 'extra'"):
        fetch(TOY, tmp_path, groups=["extras"], base_url=server.url)
    assert server.log == []


def test_a_dropped_connection_is_resumed(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [drop_after(70_000)]
    report = fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert (report.resumed, report.downloaded, report.n_bytes) == ([PINNED], [], len(BODY))
    assert server.ranges(PINNED) == [None, "bytes=70000-"]
    assert target(tmp_path).read_bytes() == BODY


def test_repeated_drops_end_in_an_error_that_keeps_the_downloaded_bytes(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [drop_after(1_000)] * 3
    with raises(FetchError):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert not target(tmp_path).exists()
    assert part(tmp_path).read_bytes() == BODY[:3_000]
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).resumed == [PINNED]
    assert server.ranges(PINNED)[-1] == "bytes=3000-"
    assert target(tmp_path).read_bytes() == BODY


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(cuts=st.lists(st.integers(0, 3_000), max_size=4), body=st.binary(max_size=9_000).map(b"{".__add__))
def test_wherever_the_connection_drops_the_bytes_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], body: bytes
) -> None:
    data_dir = tmp_path_factory.mktemp("cuts")
    toy = Source("t", "t", "m", "r", "c" * 40, "http://x/", (SourceFile("a", None, None, "tasks"),))
    with serving({"a": body}) as files:
        files.behaviours["a"] = [drop_after(n_bytes) for n_bytes in cuts]
        fetch(toy, data_dir, base_url=files.url, limits=Limits(retries=len(cuts), backoff_seconds=0.0))
    assert (data_dir / "t" / "a").read_bytes() == body


def test_a_server_that_ignores_ranges_restarts_the_download(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [drop_after(70_000), ignore_range]
    report = fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert (report.downloaded, report.n_bytes) == ([PINNED], len(BODY) + 70_000)
    assert target(tmp_path).read_bytes() == BODY


def test_a_wrong_range_is_not_appended(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [drop_after(70_000), wrong_range]
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).downloaded == [PINNED]
    assert server.ranges(PINNED) == [None, "bytes=70000-", None]
    assert target(tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("left", [FREE_BODY, FREE_BODY + b"surplus"])
def test_a_range_after_the_end_restarts_the_download(server: FileServer, tmp_path: Path, left: bytes) -> None:
    part(tmp_path, FREE).parent.mkdir(parents=True)
    part(tmp_path, FREE).write_bytes(left)
    fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert server.ranges(FREE) == [f"bytes={len(left)}-", None]
    assert target(tmp_path, FREE).read_bytes() == FREE_BODY


@pytest.mark.parametrize(("left", "n_requests"), [(BODY, 0), (BODY + b"surplus", 1)])
def test_a_pinned_size_saves_a_request(server: FileServer, tmp_path: Path, left: bytes, n_requests: int) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).write_bytes(left)
    fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert server.ranges(PINNED) == [None] * n_requests
    assert target(tmp_path).read_bytes() == BODY


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (BODY[:-1] + b"?", "sha256 .* instead of"),
        (BODY[:-9], "199991 bytes instead of 200000"),
        (BODY + b"more", "200004 bytes or more"),
        (POINTER, "Git-LFS pointer"),
        (b"\n<!DOCTYPE html><p>Sign in</p>", "a web page"),
    ],
)
def test_wrong_bytes_are_reported_and_discarded(server: FileServer, tmp_path: Path, other: bytes, found: str) -> None:
    server.behaviours[PINNED] = [instead(other)]
    with pytest.raises(FetchError, match=rf"(?s){PINNED}.*{found}.*next step"):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert list(target(tmp_path).parent.iterdir()) == []
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).downloaded == [PINNED]


@pytest.mark.parametrize("other", [POINTER, b"<html></html>"])
def test_a_placeholder_is_never_recorded_as_the_file(server: FileServer, tmp_path: Path, other: bytes) -> None:
    server.behaviours[FREE] = [instead(other)]
    with pytest.raises(FetchError, match=r"pointer|web page"):
        fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert not target(tmp_path, FREE).exists()
    assert not (tmp_path / TOY.folder / RECORD_NAME).exists()


@pytest.mark.parametrize(("code", "n_requests"), [(404, 1), (403, 1), (500, 3), (429, 3)])
def test_only_transient_error_statuses_are_retried(
    server: FileServer, tmp_path: Path, code: int, n_requests: int
) -> None:
    server.behaviours[PINNED] = [status(code)] * 3
    with pytest.raises(FetchError, match=f"(?s){PINNED}.*HTTP {code}"):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert len(server.log) == n_requests


def test_a_transient_server_error_leaves_no_trace(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [status(500)]
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).downloaded == [PINNED]


def test_retry_after_is_respected(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [status(429, Retry_After="1")]
    started = time.monotonic()
    fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert time.monotonic() - started >= 1.0


def test_a_silent_server_fails_after_the_timeout(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [hang_after(5_000)]
    with pytest.raises(FetchError, match=r"silent for 0\.3 seconds"):
        fetch(TOY, tmp_path, base_url=server.url, limits=Limits(timeout_seconds=0.3, retries=0))
    assert part(tmp_path).stat().st_size == 5_000


def test_no_server_is_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with raises(FetchError):
            fetch(TOY, tmp_path, base_url=url, limits=QUICK)


@pytest.mark.parametrize("base_url", ["file:///etc/", "ftp://example.org/", "human", "http://"])
def test_only_web_addresses_are_fetched_from(tmp_path: Path, base_url: str) -> None:
    with pytest.raises(FetchError, match="base URL"):
        fetch(TOY, tmp_path, base_url=base_url)


def test_files_of_unknown_size_or_compressed_files_are_refused(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[FREE] = [unmeasured, compressed]
    for found in ("the size of the file", "Content-Encoding gzip"):
        with pytest.raises(FetchError, match=found):
            fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)


def test_chunks_without_an_end_are_a_broken_connection(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[FREE] = [chunked(is_complete=False), chunked(is_complete=True)]
    fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert server.ranges(FREE) == [None, "bytes=45000-"]
    assert target(tmp_path, FREE).read_bytes() == FREE_BODY


def test_an_unpinned_file_must_match_the_first_download(server: FileServer, tmp_path: Path) -> None:
    first = fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    record = json.loads((first.root / RECORD_NAME).read_text())["files"][FREE]
    assert first.recorded == [FREE]
    assert record == {
        "commit": TOY.commit,
        "n_bytes": len(FREE_BODY),
        "origin": server.url + "human/reference%2BRAG.jsonl",
        "sha256": hashlib.sha256(FREE_BODY).hexdigest(),
    }
    assert fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK).already_there == [FREE]
    assert len(server.log) == 1
    target(tmp_path, FREE).write_bytes(b"edited")
    server.bodies[FREE] = b"moved on"
    with pytest.raises(FetchError, match=f"(?s){hashlib.sha256(b'moved on').hexdigest()}.*{RECORD_NAME}.*delete"):
        fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert target(tmp_path, FREE).read_bytes() == b"edited"


def test_an_existing_unpinned_file_is_recorded_and_kept(server: FileServer, tmp_path: Path) -> None:
    target(tmp_path, FREE).parent.mkdir(parents=True)
    target(tmp_path, FREE).write_bytes(b"mine")
    report = fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert (report.already_there, report.recorded, server.log) == ([FREE], [FREE], [])


def test_a_file_must_match_its_git_blob_id(server: FileServer, tmp_path: Path) -> None:
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"  # `printf 'hello\n' | git hash-object --stdin`
    toy = replace(TOY, files=(SourceFile(FREE, None, None, "extra", hello),))
    with pytest.raises(FetchError, match=f"(?s)wrong bytes.*git blob .* instead of {hello}"):
        fetch(toy, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert not target(tmp_path, FREE).exists()
    server.bodies[FREE] = b"hello\n"
    report = fetch(toy, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    assert (report.downloaded, report.recorded) == ([FREE], [])
    assert [state.status for state in verify(toy, tmp_path, ["extra"])] == [FileStatus.OK]


def test_another_commit_downloads_unpinned_files_again(server: FileServer, tmp_path: Path) -> None:
    fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)
    server.bodies[FREE] = b"of the later commit"
    later = make_source(commit="fedcba9876543210")
    assert [state.status for state in verify(later, tmp_path, ["extra"])] == [FileStatus.UNKNOWN]
    assert fetch(later, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK).downloaded == [FREE]
    assert target(tmp_path, FREE).read_bytes() == b"of the later commit"


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "files": {}}', '{"format": 1, "files": {"a": {}}}'])
def test_a_corrupt_record_is_named(server: FileServer, tmp_path: Path, text: str) -> None:
    (tmp_path / TOY.folder).mkdir()
    (tmp_path / TOY.folder / RECORD_NAME).write_text(text)
    with pytest.raises(FetchError, match=f"(?s)recorded checksums.*{RECORD_NAME}.*delete this file"):
        fetch(TOY, tmp_path, groups=["extra"], base_url=server.url, limits=QUICK)


def test_verify_distinguishes_the_four_states(server: FileServer, tmp_path: Path) -> None:
    def states() -> list[FileStatus]:
        return [state.status for state in verify(TOY, tmp_path)]

    assert states() == [FileStatus.MISSING, FileStatus.MISSING]
    fetch(TOY, tmp_path, groups=["tasks", "extra"], base_url=server.url, limits=QUICK)
    assert states() == [FileStatus.OK, FileStatus.OK]
    (tmp_path / TOY.folder / RECORD_NAME).unlink()
    target(tmp_path).write_bytes(BODY[::-1])
    assert states() == [FileStatus.WRONG, FileStatus.UNKNOWN]
    target(tmp_path, FREE).write_bytes(POINTER)
    assert states() == [FileStatus.WRONG, FileStatus.WRONG]
    assert not (tmp_path / TOY.folder / RECORD_NAME).exists()


def checkout_of(folder: Path, pinned: bytes = BODY, free: bytes = FREE_BODY) -> Path:
    for path, content in ((PINNED, pinned), (FREE, free)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_a_checkout_is_copied(tmp_path: Path) -> None:
    checkout, data_dir = checkout_of(tmp_path / "checkout"), tmp_path / "data"
    report = adopt(TOY, checkout, data_dir, groups=["tasks", "extra"])
    assert (report.copied, report.recorded, report.n_bytes) == ([PINNED, FREE], [FREE], len(BODY) + len(FREE_BODY))
    assert (target(data_dir).read_bytes(), target(data_dir, FREE).read_bytes()) == (BODY, FREE_BODY)
    assert adopt(TOY, checkout, data_dir, groups=["tasks", "extra"]).already_there == [PINNED, FREE]
    assert not (checkout / RECORD_NAME).exists()


def test_a_checkout_in_the_data_folder_is_only_recorded(tmp_path: Path) -> None:
    checkout = checkout_of(tmp_path / "checkout")
    report = adopt(TOY, checkout, checkout, groups=["tasks", "extra"])
    assert (report.already_there, report.recorded, report.copied) == ([PINNED, FREE], [FREE], [])


def test_a_wrong_checkout_is_refused_completely(tmp_path: Path) -> None:
    checkout = checkout_of(tmp_path / "checkout", pinned=BODY[::-1], free=POINTER)
    with pytest.raises(FetchError, match=f"(?s){PINNED}: wrong checksum.*{FREE_PATTERN}: wrong checksum .a Git-LFS"):
        adopt(TOY, checkout, tmp_path / "data", groups=["tasks", "extra"])
    (checkout / PINNED).unlink()
    with pytest.raises(FetchError, match=f"{PINNED}: missing"):
        adopt(TOY, checkout, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_recorded_file_is_not_replaced_by_another_from_a_checkout(tmp_path: Path) -> None:
    adopt(TOY, checkout_of(tmp_path / "first"), tmp_path / "data", groups=["extra"])
    with pytest.raises(FetchError, match=f"(?s){FREE_PATTERN}.*{RECORD_NAME}.*delete that entry"):
        adopt(TOY, checkout_of(tmp_path / "second", free=b"other"), tmp_path / "data", groups=["extra"])
    assert target(tmp_path / "data", FREE).read_bytes() == FREE_BODY


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a\\..\\b", "C:/a", "a/", "a\0"]
)
def test_paths_that_could_leave_the_folder_are_refused(path: str) -> None:
    with pytest.raises(FetchError, match="unsafe path"):
        SourceFile(path, None, None, "tasks")


@settings(derandomize=True)
@given(st.text(alphabet="ab./\\:+", max_size=12))
def test_an_accepted_path_stays_below_any_folder(path: str) -> None:
    try:
        accepted = SourceFile(path, None, None, "tasks").path
    except FetchError:
        return
    root = Path("/data/toy")
    resolved = Path(os.path.normpath(root / accepted))
    assert root in resolved.parents
    assert resolved.relative_to(root).as_posix() == accepted


def run_fetch(data_dir: Path, url: str, **options: object) -> subprocess.Popen[str]:
    """Start a fetch of the toy source in another process."""
    code = (
        "import sys; from pathlib import Path\n"
        "from ragtasks.benchmarks.download import Limits, fetch\n"
        "from ragtasks.errors import FetchError\n"
        "from tests.benchmarks.test_download import TOY\n"
        "try:\n    fetch(TOY, Path(sys.argv[1]), base_url=sys.argv[2], limits=Limits(retries=0))\n"
        "except FetchError as error:\n    sys.exit(str(error))\n"
    )
    arguments = [sys.executable, "-c", code, str(data_dir), url]
    return subprocess.Popen(arguments, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, **options)


def test_a_killed_fetch_is_resumed_to_the_same_bytes(server: FileServer, tmp_path: Path) -> None:
    server.behaviours[PINNED] = [hang_after(131_072)]
    process = run_fetch(tmp_path, server.url)
    deadline = time.monotonic() + 30
    # The process writes through a buffer: only the bytes in the file before the kill count.
    while not (part(tmp_path).exists() and part(tmp_path).stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(FetchError, match="another fetch is running"):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    n_kept = part(tmp_path).stat().st_size
    assert 0 < n_kept <= 131_072
    assert not target(tmp_path).exists()
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).resumed == [PINNED]
    assert server.ranges(PINNED) == [None, f"bytes={n_kept}-"]
    assert target(tmp_path).read_bytes() == BODY


def test_a_file_over_the_size_limit_is_resumed_later(server: FileServer, tmp_path: Path) -> None:
    limit = 50_000
    process = run_fetch(
        tmp_path,
        server.url,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "the disk is full" in message
    assert PINNED in message
    assert "Traceback" not in message
    assert not target(tmp_path).exists()
    assert part(tmp_path).stat().st_size <= limit
    assert part(tmp_path).read_bytes() == BODY[: part(tmp_path).stat().st_size]
    fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert target(tmp_path).read_bytes() == BODY


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_is_named(server: FileServer, tmp_path: Path) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).symlink_to("/dev/full")
    with raises(FetchError):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert not target(tmp_path).exists()


def test_a_data_folder_that_cannot_be_created_is_named(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with raises(FetchError):
        fetch(TOY, tmp_path / "taken", base_url=server.url, limits=QUICK)


def test_the_lock_ends_with_its_process(server: FileServer, tmp_path: Path) -> None:
    with exclusive_writer(tmp_path / TOY.folder), pytest.raises(FetchError, match="another fetch is running"):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert fetch(TOY, tmp_path, base_url=server.url, limits=QUICK).downloaded == [PINNED]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device of this system is always full")
def test_a_body_announced_as_too_large_is_refused_before_it_is_read(server: FileServer, tmp_path: Path) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).symlink_to("/dev/full")  # the first written byte raises another error
    server.behaviours[PINNED] = [instead(BODY + b"more")]
    with pytest.raises(FetchError, match="another file"):
        fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)


def test_a_fetch_prints_nothing_without_a_terminal(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(TOY, tmp_path, base_url=server.url, limits=QUICK)
    assert capsys.readouterr() == ("", "")


def test_user_and_password_of_a_mirror_are_sent_only_to_it_and_never_printed(
    server: FileServer, tmp_path: Path
) -> None:
    address = server.url.replace("http://", "http://me:a%40b-pass-4711@")
    fetch(TOY, tmp_path, base_url=address, limits=QUICK)
    assert server.authorization == "Basic bWU6YUBiLXBhc3MtNDcxMQ=="
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"4711" in path.read_bytes()]
    server.bodies.clear()
    with pytest.raises(FetchError) as refused:
        fetch(TOY, tmp_path / "again", base_url=address, limits=QUICK)
    assert "***@127.0.0.1" in str(refused.value)
    assert "4711" not in str(refused.value)
