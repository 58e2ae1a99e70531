"""Nodes of a cluster of Azure CycleCloud, rented by its REST API: its buckets are the offers.

CycleCloud keeps image, network, disks and permissions in the cluster's template; here is only what an order needs.
"""
