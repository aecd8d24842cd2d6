"""Recovery: the catalog made again from the bucket alone; objects that no row of the catalog names."""
