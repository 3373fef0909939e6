"""Claims of the literature as experiments, each with a verdict that is computed.

    minitransformer claims               # the claims, and what was found
    minitransformer claims sqrt-dk       # run one
    minitransformer claims --all         # run all; goes on where it stopped

`claim` is what a claim is, `experiments` are the claims, `running` runs them, `verdict` says what was found.
"""

from . import experiments
from .claim import CLAIMS, Claim, Rule, Trial, claim, find
from .running import Study
from .verdict import Finding, Interval, verdict

__all__ = ["CLAIMS", "Claim", "Finding", "Interval", "Rule", "Study", "Trial", "claim", "find", "verdict"]
