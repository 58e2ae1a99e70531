"""The page: what the autoscaler sees and decides, in a browser. Templates over the answers that commands and programs
get; no figure is computed here. It works without JavaScript.
"""
