"""Read: which chunks a selection takes, and their proven content."""
