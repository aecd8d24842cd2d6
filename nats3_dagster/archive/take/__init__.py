"""Take: how an archive of the mode `consumer` takes messages through its durable."""
