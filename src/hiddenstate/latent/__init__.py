"""Models whose state is a belief over something hidden, updated by Bayes' rule."""
