"""What `nats3 doctor` looks at, one module for each world.

The rule kept here: a check finds, it does not mend. Each finding says what to do, and nothing stays that a check wrote.
"""
