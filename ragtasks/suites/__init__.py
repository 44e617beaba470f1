"""What each kind of benchmark is scored with: one module a suite, found by its name."""

__all__: list[str] = []
