"""Results as tables, lines and plots; matplotlib is used here only, and imported when something is drawn."""
