"""Terminal: options, questions, tables and progress that commands share."""
