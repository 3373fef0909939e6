"""Claims of the literature as experiments, whose verdicts are computed.

    minitransformer claims               # lists the claims, with their verdicts
    minitransformer claims sqrt-dk       # tests one claim
    minitransformer claims --all         # tests all claims, continuing where it stopped

`claim` defines the class Claim, `experiments` has the claims, `running` runs them, and `verdict` computes the
verdicts.
"""

from . import experiments
from .claim import CLAIMS, Claim, Rule, Trial, claim, find
from .running import Study
from .verdict import Finding, Interval, verdict

__all__ = ["CLAIMS", "Claim", "Finding", "Interval", "Rule", "Study", "Trial", "claim", "find", "verdict"]
