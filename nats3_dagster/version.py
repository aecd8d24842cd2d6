"""The version of the package. Hatch reads it from this file."""

__version__ = "0.1.0"
