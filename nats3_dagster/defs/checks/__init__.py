"""Checks of an archive's hours, and the sensor that asks for them."""
