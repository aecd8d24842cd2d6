"""Jobs: runs that capture, seal, compact and replay, their run config, and what is logged of them."""
