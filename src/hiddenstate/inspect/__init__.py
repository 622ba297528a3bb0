"""Tools that show what a hidden state knows: of any model, by its contract alone."""
