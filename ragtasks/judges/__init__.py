"""Language models as judges: what they are asked (rubrics), how a reply is read (parsers), what they said (verdicts).

A rubric turns a response into a question, a client answers it, a parser reads the final verdict and nothing else. A
reply without one is asked for again once, then stays without a value: no number is made up for it.
"""
