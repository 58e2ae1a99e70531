"""From pending jobs to demand: eligibility, requests, shared limits. Later layers know nothing of Grid Engine's
semantics.
"""
