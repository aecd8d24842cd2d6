"""Contents: the chunks, gaps, hours and seals of archives, and which sequences these account for."""
