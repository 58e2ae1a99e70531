"""Carries out a plan's actions, one file per action, each journalled before its first outside call."""
