"""The stock client library for autoscalers of CycleCloud's API finds everything that it expects here."""

from __future__ import annotations

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.workers.phases import Phase
from tests.web.served import Served, array, worker
from tests.web.stock_client import StockBucket, StockClient


@pytest.fixture
def stock(api: Served) -> StockClient:
    """The library after its first reading of two node arrays with two workers."""
    api.observe(worker("i-1"), worker("i-2", phase=Phase.BOOTING), arrays=(array(), array("batch", max_workers=3)))
    client = StockClient(api.client)
    client.refresh()
    return client


def bucket(stock: StockClient, number: int = 0) -> StockBucket:
    return stock.buckets[number]


def test_buckets_have_everything_that_the_library_reads(stock: StockClient) -> None:
    assert [(each.node_array, each.machine_type, each.available) for each in stock.buckets] == [
        ("execute", "c5.large", 8),
        ("execute", "c5.xlarge", 8),
        ("batch", "c5.large", 3),
        ("batch", "c5.xlarge", 3),
    ]


def test_every_started_node_is_in_one_bucket(stock: StockClient) -> None:
    stock.start([(bucket(stock), 2), (bucket(stock, 1), 1)])
    stock.refresh()
    found = [name for each in stock.buckets for name in each.nodes]
    assert sorted(found) == sorted(node["Name"] for node in stock.client.nodes())


def test_every_node_gets_the_name_that_the_library_predicted(stock: StockClient) -> None:
    started = stock.start([(bucket(stock), 2), (bucket(stock, 2), 1), (bucket(stock, 1), 1)])
    assert {name: node["MachineType"] for name, node in started.items()} == {
        "execute-1": "c5.large",
        "execute-2": "c5.large",
        "batch-1": "c5.large",
        "execute-3": "c5.xlarge",
    }


def test_predicted_names_are_free_after_a_termination(stock: StockClient) -> None:
    first = stock.start([(bucket(stock), 3)])
    stock.end([first["execute-2"]["NodeId"]])
    stock.refresh()
    assert set(stock.start([(bucket(stock), 2)])) == {"execute-2", "execute-4"}


def test_nodes_of_a_placement_group_are_found_in_its_bucket(stock: StockClient) -> None:
    plain = bucket(stock)
    grouped = StockBucket(plain.node_array, plain.machine_type, "pg0", plain.available, ())
    stock.start([(grouped, 2), (plain, 1)])
    stock.refresh()
    of_group = [each for each in stock.buckets if each.placement_group == "pg0"]
    assert [each.nodes for each in of_group] == [("execute-1", "execute-2")]


def test_attributes_set_on_a_node_are_read_back(stock: StockClient) -> None:
    resources = {"autoscale": {"resources": {"ncpus": 2}}}
    (node,) = stock.start([(bucket(stock), 1)], KeepAlive=True, Configuration=resources).values()
    assert (node["KeepAlive"], node["Configuration"]["autoscale"]["resources"]) == (True, {"ncpus": 2})


def test_a_node_that_the_library_ends_is_no_longer_started(stock: StockClient) -> None:
    (running,) = bucket(stock).nodes[:1]
    (node,) = (each for each in stock.client.nodes() if each["Name"] == running)
    result = stock.end([node["NodeId"]])
    stock.refresh()
    assert (result, running in bucket(stock).nodes) == ({running: "Terminated"}, False)


def test_a_failed_node_is_listed_as_failed_until_the_library_ends_it(stock: StockClient, api: Served) -> None:
    (node,) = stock.start([(bucket(stock), 1)]).values()
    api.store.nodes.bind(node["NodeId"], "i-9")
    api.store.nodes.lose({"i-9": because(Code.GONE)}, at=200.0)
    failed = stock.failed()
    stock.refresh()
    stock.end(failed)
    assert (failed, stock.failed(), bucket(stock).available) == ([node["NodeId"]], [], 8)


def test_a_node_that_the_library_retries_no_longer_counts_as_failed(stock: StockClient, api: Served) -> None:
    (node,) = stock.start([(bucket(stock), 1)], KeepAlive=True).values()
    api.store.nodes.bind(node["NodeId"], "i-9")
    api.store.nodes.lose({"i-9": because(Code.GONE)}, at=200.0)
    stock.retry_failed()
    assert (stock.failed(), stock.client.nodes()[0]["Status"]) == ([], "Acquiring")


def test_nodes_of_a_request_with_a_lost_answer_are_found_by_its_id(stock: StockClient) -> None:
    names = list(stock.start([(bucket(stock), 2)], request_id="r"))
    assert stock.of_request("r") == names


def test_the_available_number_of_nodes_can_be_created(stock: StockClient) -> None:
    most = bucket(stock).available
    assert len(stock.start([(bucket(stock), most)])) == most


def test_sets_with_null_attributes_are_accepted(stock: StockClient) -> None:
    body = {"requestId": None, "sets": [{"count": 1, "nodearray": "execute", "nameFormat": None, "nameOffset": None,
            "placementGroupId": None, "nodeAttributes": None, "definition": {"machineType": "c5.large"}}]}  # fmt: skip
    assert stock.client.post("nodes/create", body).status_code == 202
