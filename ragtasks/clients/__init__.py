"""Who answers prompts: endpoints and models behind one protocol, with limits, retries and a cache of replies.

Judges, query rewriting and synthesis all speak to a `Client` and never learn which one it is.
"""
