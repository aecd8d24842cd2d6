"""The checks of `nats3 doctor`, a module for each world. A check finds and does not mend; nothing it wrote stays."""
