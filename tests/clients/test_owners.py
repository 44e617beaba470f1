"""Claims of a process that was killed are free at once where the system knows that it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ragtasks.clients import ReplyCache
from ragtasks.clients._reply_cache import Claim, Claims, begin_owner, end_owner, is_gone
from ragtasks.errors import JudgeError

_TAKE = """
import os, sys
from pathlib import Path
from ragtasks.clients import ReplyCache
from ragtasks.clients._reply_cache import Claims
claims = Claims(ReplyCache(Path(sys.argv[1])))
claims.__enter__()
claims.take("k", lambda _: True)
print("taken", flush=True)
sys.stdin.readline()
"""


def test_an_owner_of_this_process_is_gone_once_it_ends() -> None:
    owner = begin_owner()
    assert not is_gone(owner)
    end_owner(owner)
    assert is_gone(owner)


@pytest.mark.parametrize("owner", ["other", "", "elsewhere/12/ab", "a/b"])
def test_nobody_is_gone_of_whom_nothing_is_known(owner: str) -> None:
    assert not is_gone(owner)


def test_a_process_of_another_machine_is_not_looked_for_here() -> None:
    assert not is_gone(f"elsewhere/{os.getpid()}/ab")


def test_what_a_killed_process_claims_is_free_at_once_and_no_earlier(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TAKE, str(tmp_path / "c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"taken\n"
        with ReplyCache(tmp_path / "c") as cache:
            with Claims(cache) as claims:
                assert claims.take("k", lambda _: True) is Claim.THEIRS
            process.kill()  # nobody has asked for its status yet
            while not all(map(is_gone, cache.owners())):
                pass
            with Claims(cache) as claims:
                assert claims.take("k", lambda _: True) is Claim.OURS


@pytest.mark.parametrize(("error", "n_unseen"), [(KeyboardInterrupt, 1), (JudgeError, 0), (None, 0)])
def test_what_an_interruption_left_under_way_may_have_cost_and_what_our_errors_end_has_not(
    tmp_path: Path, error: type[BaseException] | None, n_unseen: int
) -> None:
    with ReplyCache(tmp_path / "c") as cache:
        with suppress(KeyboardInterrupt, JudgeError), Claims(cache) as claims:
            assert claims.take("k", lambda _: True) is Claim.OURS
            if error is not None:
                raise error("ended")
        assert len(cache.unused("k")) == n_unseen
        with Claims(cache) as claims:
            assert claims.take("k", lambda _: True) is Claim.OURS, "nobody holds it any more"
