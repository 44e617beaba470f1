"""The one reader of what an evaluation left behind."""
