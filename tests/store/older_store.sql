PRAGMA user_version=14;
BEGIN TRANSACTION;
CREATE TABLE accounting_read (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        offset INTEGER NOT NULL
    ) STRICT
    ;
CREATE TABLE actions (
        id INTEGER PRIMARY KEY,
        plan INTEGER NOT NULL REFERENCES plans(id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        worker_id TEXT,
        host TEXT,
        order_id TEXT,
        action TEXT NOT NULL,
        ended_at REAL,
        result TEXT,
        message TEXT NOT NULL DEFAULT ''
    ) STRICT
    ;
CREATE TABLE answers (
        job INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at REAL NOT NULL,
        answer TEXT NOT NULL,
        said TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE array_definitions (name TEXT PRIMARY KEY, definition TEXT NOT NULL) STRICT;
CREATE TABLE array_samples (
        resolution INTEGER NOT NULL,
        at REAL NOT NULL,
        node_array TEXT NOT NULL,
        coming REAL NOT NULL, busy REAL NOT NULL, idle REAL NOT NULL, leaving REAL NOT NULL, aside REAL NOT NULL, cores REAL NOT NULL, price_per_hour REAL NOT NULL, unknown_prices REAL NOT NULL, target_workers REAL NOT NULL, target_cores REAL NOT NULL, most REAL NOT NULL,
        PRIMARY KEY (resolution, at, node_array)
    ) STRICT, WITHOUT ROWID
    ;
CREATE TABLE attempts (
        token TEXT PRIMARY KEY,
        order_id TEXT NOT NULL REFERENCES orders(id) ON DELETE CASCADE,
        candidate INTEGER NOT NULL,
        asked TEXT NOT NULL,
        sent_at REAL NOT NULL,
        answered_at REAL,
        ids TEXT NOT NULL DEFAULT '[]',
        message TEXT NOT NULL DEFAULT ''
    , again_at REAL) STRICT
    ;
CREATE TABLE auto_stops (
        worker_id TEXT PRIMARY KEY,
        asked_at REAL NOT NULL,
        answered_at REAL,
        answer TEXT,
        reason TEXT NOT NULL DEFAULT ''
    ) STRICT
    ;
CREATE TABLE explained (
        job INTEGER PRIMARY KEY,
        explanation INTEGER NOT NULL REFERENCES explanations(id) ON DELETE CASCADE
    ) STRICT
    ;
CREATE TABLE explanations (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        verdict TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE failures (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        bucket TEXT NOT NULL,
        kind TEXT NOT NULL,
        message TEXT NOT NULL,
        order_id TEXT NOT NULL,
        worker_id TEXT UNIQUE
    , retry_at REAL) STRICT
    ;
CREATE TABLE health (
        worker_id TEXT PRIMARY KEY,
        at REAL NOT NULL,
        healthy INTEGER NOT NULL,
        message TEXT NOT NULL,
        sick_since REAL
    ) STRICT
    ;
CREATE TABLE job_failures (
        id INTEGER PRIMARY KEY,
        host TEXT NOT NULL,
        job INTEGER NOT NULL,
        at REAL NOT NULL,
        failed TEXT NOT NULL,
        owner TEXT NOT NULL,
        task INTEGER NOT NULL
    ) STRICT
    ;
CREATE TABLE job_successes (
        host TEXT NOT NULL,
        owner TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (host, owner)
    ) STRICT
    ;
CREATE TABLE lifetimes (
        worker_id TEXT PRIMARY KEY,
        name TEXT,
        instance_type TEXT NOT NULL,
        node_array TEXT NOT NULL,
        price_type TEXT NOT NULL,
        price_per_hour REAL,
        created_at REAL NOT NULL,
        joined_at REAL,
        removed_at REAL,
        ended_at REAL
    ) STRICT
    ;
CREATE TABLE looks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        look TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "looks" VALUES(1,1,1800000000.0,'{"provider": "fake", "operates": false, "workers": [{"worker": {"id": "i-w-advised", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-advised", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-advised", "closed": false}, {"worker": {"id": "i-w-auto_stop", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-auto_stop", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-auto_stop", "closed": false}, {"worker": {"id": "i-w-broken", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-broken", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-broken", "closed": false}, {"worker": {"id": "i-w-busy", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-busy", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "in service", "host": "w-busy", "closed": false}, {"worker": {"id": "i-w-by-hand", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-by-hand", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "disabled by hand", "host": "w-by-hand", "closed": true}, {"worker": {"id": "i-w-command", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-command", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-command", "closed": false}, {"worker": {"id": "i-w-enrol", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-enrol", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "ready", "host": "w-enrol", "closed": false}, {"worker": {"id": "i-w-fenced", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-fenced", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "fenced", "host": "w-fenced", "closed": false}, {"worker": {"id": "i-w-group", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-group", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-group", "closed": false}, {"worker": {"id": "i-w-idle", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-idle", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-idle", "closed": false}, {"worker": {"id": "i-w-idle-long", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-idle-long", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "in service", "host": "w-idle-long", "closed": false}, {"worker": {"id": "i-w-interrupted", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-interrupted", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "interrupted", "host": "w-interrupted", "closed": false}, {"worker": {"id": "i-w-joining", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-joining", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "joining", "host": "w-joining", "closed": false}, {"worker": {"id": "i-w-lost", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-lost", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "silent", "host": "w-lost", "closed": false}, {"worker": {"id": "i-w-noticed", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-noticed", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "interrupted", "host": "w-noticed", "closed": false}, {"worker": {"id": "i-w-removing", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-removing", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "removing", "host": "w-removing", "closed": false}, {"worker": {"id": "i-w-silent", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-silent", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "silent", "host": "w-silent", "closed": false}, {"worker": {"id": "i-w-stop", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-stop", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-stop", "closed": false}, {"worker": {"id": "i-w-swap", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-swap", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "draining", "host": "w-swap", "closed": false}, {"worker": {"id": "i-w-twin", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-twin", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "in service", "host": "w-twin", "closed": false}, {"worker": {"id": "i-w-unheard", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w-unheard", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "unheard", "host": "w-unheard", "closed": false}, {"worker": {"id": "i-w-unknown-array", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "forgotten", "state": "running", "created_at": 1799998200.0, "name": "w-unknown-array", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "unknown array", "host": "w-unknown-array", "closed": false}, {"worker": {"id": "i-booting", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "pending", "created_at": 1799999700.0, "name": null, "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "booting", "host": null, "closed": false}, {"worker": {"id": "i-w-ending", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "stopping", "created_at": 1799999700.0, "name": "w-ending", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "ending", "host": null, "closed": false}, {"worker": {"id": "i-w-retired", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799999700.0, "name": "w-retired", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "retired", "host": null, "closed": false}, {"worker": {"id": "i-w-up", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799999700.0, "name": "w-up", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "enrollable", "host": null, "closed": false}, {"worker": {"id": "i-younger", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799999940.0, "name": "w-twin", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "life": "name awaited", "host": null, "closed": false}], "orders": [], "arrays": [{"name": "execute", "queue": "main.q", "max_workers": 10, "max_cores": null, "max_own_workers": null, "max_own_cores": null, "total_workers": null, "total_cores": null, "extends": null, "buckets": [{"key": {"instance_type": "m5.large", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "price_per_hour": 0.1, "available": null, "problem": null, "any_group": false}], "price_types": ["on_demand"], "wanted": true, "keep_alive": [], "configuration": "{}", "attributes": "{}"}], "stopping": false, "withheld": {}, "rests": [], "refused": {}}');
CREATE TABLE memory (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        memory TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "memory" VALUES(1,1800000000.0,'{"passes": 7, "workers": {"i-w-left-out": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-left-out", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": 1799999950.0, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-enrol": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "enrol", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-enrol", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-idle": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "idle", "seen_disabled": true, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-idle", "empty_since": 1799999970.0, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-command": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "command", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-command", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-stop": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "stop", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-stop", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-broken": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "broken", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-broken", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-silent": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "silent", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-silent", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-interrupted": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "interrupted", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-interrupted", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-advised": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "advised", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-advised", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-lost": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "lost", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-lost", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-swap": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "swap", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-swap", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-group": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "group", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-group", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-auto_stop": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "auto_stop", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-auto_stop", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-idle-long": {"first_seen": 1799996400.0, "idle_since": 1799999600.0, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-idle-long", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-busy": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-busy", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-by-hand": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-by-hand", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-unheard": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-unheard", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-joining": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "enrol", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": null, "host": "w-joining", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-unknown-array": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-unknown-array", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-retired": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": 1799999940.0, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-retired", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-noticed": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-noticed", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-twin": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-twin", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-fenced": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "silent", "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-fenced", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": 900.0, "fenced_at": 1799999970.0, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w-removing": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "idle", "seen_disabled": true, "retired_at": 1799999995.0, "enrolling_since": null, "heard_at": 1799996400.0, "host": "w-removing", "empty_since": 1799999940.0, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": null, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 0, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}}, "able_since": {}, "unable": [], "details": {}, "swaps": {}, "rests": [], "came_up": [], "stopped": {}, "failures_seen": 0.0, "launches": [], "removals": [], "kills": [], "suspicions": {}, "quarantines": [], "quiet_since": null, "hearing": {}, "looked_at": 1799999990.0, "asked": [], "held_back": {}, "trials": {}, "protected": {}, "brake": null}');
CREATE TABLE nodes (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        node_array TEXT NOT NULL,
        created_at REAL NOT NULL,
        request_id TEXT NOT NULL,
        machine_type TEXT,
        placement_group TEXT,
        attributes TEXT NOT NULL,
        worker_id TEXT,
        ended_at REAL,
        ended_by TEXT NOT NULL DEFAULT ''
    , failed TEXT, failed_at REAL, lost TEXT NOT NULL DEFAULT '[]') STRICT
    ;
CREATE TABLE operations (
        id TEXT PRIMARY KEY,
        request_id TEXT NOT NULL DEFAULT '',
        action TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        nodes TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE orders (
        id TEXT PRIMARY KEY,
        node_array TEXT NOT NULL,
        ordered_at REAL NOT NULL,
        candidates TEXT NOT NULL,
        closed_at REAL,
        message TEXT NOT NULL DEFAULT ''
    , group_id TEXT NOT NULL DEFAULT '', nodes TEXT NOT NULL DEFAULT '[]', for_requests INTEGER NOT NULL DEFAULT 0, assignment TEXT NOT NULL DEFAULT '[]') STRICT
    ;
CREATE TABLE passes (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL,
        sentence TEXT NOT NULL,
        document TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE plans (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL
    ) STRICT
    ;
CREATE TABLE request_sets (
        name TEXT PRIMARY KEY,
        by TEXT NOT NULL,
        at REAL NOT NULL,
        expires_at REAL,
        targets TEXT NOT NULL,
        arrays TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE samples (
        resolution INTEGER NOT NULL,
        at REAL NOT NULL,
        seconds REAL NOT NULL,
        waiting REAL NOT NULL, counted REAL NOT NULL, fitting REAL NOT NULL, running REAL NOT NULL, slots REAL NOT NULL, slots_used REAL NOT NULL, persistent REAL NOT NULL, started REAL NOT NULL, waited REAL NOT NULL, longest_wait REAL NOT NULL, most_waiting REAL NOT NULL, longest_waited REAL NOT NULL,
        PRIMARY KEY (resolution, at)
    ) STRICT, WITHOUT ROWID
    ;
CREATE TABLE verbs (
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        empty_since REAL,
        begun_at REAL,
        ended_at REAL,
        message TEXT NOT NULL DEFAULT ''
    ) STRICT
    ;
CREATE TABLE wishes (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        verb TEXT NOT NULL,
        host TEXT NOT NULL DEFAULT '',
        ended_at REAL,
        ended_by TEXT NOT NULL DEFAULT ''
    ) STRICT
    ;
CREATE INDEX actions_by_host ON actions(host, id);
CREATE INDEX actions_by_worker ON actions(worker_id, id);
CREATE INDEX actions_by_order ON actions(order_id);
CREATE INDEX actions_without_outcome ON actions(id) WHERE result IS NULL;
CREATE INDEX attempts_by_order ON attempts(order_id, candidate);
CREATE INDEX passes_by_time ON passes(at);
CREATE INDEX explained_by_explanation ON explained(explanation);
CREATE UNIQUE INDEX wishes_in_force ON wishes(verb, host) WHERE ended_at IS NULL;
CREATE INDEX job_failures_of_host ON job_failures (host);
CREATE UNIQUE INDEX operations_by_request ON operations(request_id) WHERE request_id != '';
CREATE INDEX operations_by_time ON operations(at);
CREATE UNIQUE INDEX nodes_live_names ON nodes(name) WHERE ended_at IS NULL;
CREATE INDEX nodes_live ON nodes(number) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX nodes_by_worker ON nodes(worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX orders_of_groups ON orders(id) WHERE group_id != '';
CREATE INDEX orders_of_nodes ON orders(id) WHERE nodes != '[]';
CREATE UNIQUE INDEX verbs_open ON verbs(worker_id) WHERE ended_at IS NULL;
COMMIT;
