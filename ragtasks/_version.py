"""The version, alone: the build reads it from here, and no module imports the package's face for it."""

__version__ = "0.1.0"
