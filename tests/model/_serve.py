"""The server of llama-cpp-python as its users start it, except for one switch."""

from __future__ import annotations

from typing import Any

import llama_cpp
from llama_cpp import llama_cpp as bindings
from llama_cpp.server.__main__ import main

_defaults = bindings.llama_model_default_params


def _without_repacked_weights() -> Any:
    """Return the defaults without weights repacked for AMX: a virtual machine may report AMX and reject it."""
    parameters = _defaults()
    parameters.use_extra_bufts = False
    return parameters


if __name__ == "__main__":
    bindings.llama_model_default_params = _without_repacked_weights
    llama_cpp.llama_model_default_params = _without_repacked_weights
    main()
