"""Every figure and claim of the source papers as a run that checks it: `hs.papers.reproduce`."""

from hiddenstate.papers.paper import Claim, Notebook, Paper, Tables
from hiddenstate.papers.reproduce import PAPERS, Reproduction, paper, reproduce, write_reproduction

__all__ = ["PAPERS", "Claim", "Notebook", "Paper", "Reproduction", "Tables", "paper", "reproduce", "write_reproduction"]
