"""Archives by rule: each stream of an account that a rule takes has one."""
