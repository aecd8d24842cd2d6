"""What `nats3 doctor` looks at, a module for each world. A check finds and does not mend; nothing it wrote stays."""
