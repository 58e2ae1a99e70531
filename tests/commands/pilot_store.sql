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
INSERT INTO "actions" VALUES(1,1,'launch',NULL,NULL,'b66283cc589c498a9b4bb4bbc1217ddc','{"node_array": "execute", "candidates": [{"buckets": [{"key": {"instance_type": "m5.large", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "price_per_hour": 0.1, "available": null, "problem": null, "any_group": false}], "count": 2, "besides": []}], "reason": {"code": "DEMAND", "facts": [["tasks", 2], ["queue", "main.q"], ["slots", 1]], "trail": []}, "group_id": "", "nodes": [], "asked": true, "assignment": []}',NULL,NULL,'');
INSERT INTO "actions" VALUES(2,1,'push_back','i-w9','w9',NULL,'{"jobs": ["12"], "worker_id": "i-w9", "host": "w9", "reason": {"code": "LOST_JOBS_RESCHEDULED", "facts": [["jobs", ["12"]]], "trail": []}, "forced": false}',NULL,NULL,'');
CREATE TABLE answers (
        job INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at REAL NOT NULL,
        answer TEXT NOT NULL,
        said TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "answers" VALUES(5,'f',1800000000.0,'impossible','no suitable queues');
CREATE TABLE array_definitions (name TEXT PRIMARY KEY, definition TEXT NOT NULL) STRICT;
INSERT INTO "array_definitions" VALUES('burst','{"name": "burst", "dynamic": true, "extends": "execute", "machine_types": [], "price_type": null, "max_count": null, "max_cores": null, "group_cores": null, "group_count": null, "keep_alive": [], "health_check": null, "configuration": "{}", "attributes": "{}", "said_by": [], "wanted": true}');
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
    , again_at REAL, offer INTEGER NOT NULL DEFAULT 0) STRICT
    ;
INSERT INTO "attempts" VALUES('t-0','b66283cc589c498a9b4bb4bbc1217ddc',0,'{"token": "t-0", "order_id": "b66283cc589c498a9b4bb4bbc1217ddc", "cell": "tag", "node_array": "execute", "buckets": [{"key": {"instance_type": "m5.large", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "price_per_hour": 0.1, "available": null, "problem": null, "any_group": false}], "count": 2, "boot_script": "#!/bin/sh\n", "tags": {}, "settings": {}, "key": ""}',1800000001.0,NULL,'[]','',NULL,0);
CREATE TABLE auto_stops (
        worker_id TEXT PRIMARY KEY,
        asked_at REAL NOT NULL,
        answered_at REAL,
        answer TEXT,
        reason TEXT NOT NULL DEFAULT ''
    ) STRICT
    ;
CREATE TABLE event_marks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        file TEXT,
        offset INTEGER,
        pushed_out REAL
    ) STRICT
    ;
INSERT INTO "event_marks" VALUES(1,NULL,NULL,NULL);
CREATE TABLE event_runs (
        job INTEGER NOT NULL,
        task TEXT NOT NULL,
        owner TEXT NOT NULL,
        hosts TEXT NOT NULL,
        queue TEXT NOT NULL,
        started REAL,
        project TEXT NOT NULL,
        PRIMARY KEY (job, task)
    ) STRICT, WITHOUT ROWID
    ;
CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        until REAL NOT NULL,
        seen_at REAL NOT NULL,
        first_job INTEGER,
        last_job INTEGER,
        jobs TEXT NOT NULL,
        tasks TEXT NOT NULL,
        count INTEGER NOT NULL,
        owner TEXT NOT NULL,
        project TEXT NOT NULL,
        hosts TEXT NOT NULL,
        queue TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        order_id TEXT NOT NULL,
        code TEXT NOT NULL,
        message TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE explained (
        job INTEGER PRIMARY KEY,
        explanation INTEGER NOT NULL REFERENCES explanations(id) ON DELETE CASCADE
    ) STRICT
    ;
INSERT INTO "explained" VALUES(1,1);
INSERT INTO "explained" VALUES(2,1);
INSERT INTO "explained" VALUES(3,1);
INSERT INTO "explained" VALUES(5,2);
CREATE TABLE explanations (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        verdict TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "explanations" VALUES(1,1800000000.0,'{"jobs": [], "tasks": [], "ask": {"state": "qw", "slots_min": 1, "slots_max": 1, "pe": null, "hard": [], "queues": [], "master_queues": [], "owner": "", "project": null, "group": null, "ckpt": null, "dependent": false, "array": false, "unscheduled": false, "fault": null}, "count": 3, "counted": true, "waited": 60.0, "reason": {"code": "WAITS_FOR_COMING", "facts": [["tasks", 1], ["alike", 3]], "trail": []}}');
INSERT INTO "explanations" VALUES(2,1800000000.0,'{"jobs": [], "tasks": [], "ask": {"state": "qw", "slots_min": 1, "slots_max": 1, "pe": null, "hard": [["lic", "1"]], "queues": [], "master_queues": [], "owner": "", "project": null, "group": null, "ckpt": null, "dependent": false, "array": false, "unscheduled": false, "fault": null}, "count": 1, "counted": false, "waited": 60.0, "reason": {"code": "NO_TYPE_FITS", "facts": [["slots", 1], ["where", "one host"], ["largest", 2], ["workers", 10], ["besides", ["lic=1"]]], "trail": [{"code": "UNPROVEN", "facts": [], "trail": [{"code": "FITS_WHEN_FREE", "facts": [], "trail": []}]}]}}');
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
    , slots INTEGER, currency TEXT NOT NULL DEFAULT '', seen_at REAL) STRICT
    ;
INSERT INTO "lifetimes" VALUES('i-w1','w1','m5.large','execute','on_demand',NULL,1799998200.0,1800000000.0,NULL,NULL,2,'',NULL);
INSERT INTO "lifetimes" VALUES('i-w2','w2','m5.large','execute','on_demand',NULL,1799998200.0,NULL,NULL,NULL,2,'',NULL);
INSERT INTO "lifetimes" VALUES('i-w3','w3','m5.large','execute','on_demand',NULL,1799998200.0,NULL,NULL,NULL,2,'',NULL);
INSERT INTO "lifetimes" VALUES('i-w4','w4','m5.large','execute','on_demand',NULL,1799998200.0,NULL,NULL,NULL,2,'',NULL);
INSERT INTO "lifetimes" VALUES('i-w5','w5','m5.large','execute','on_demand',NULL,1799998200.0,NULL,NULL,NULL,2,'',NULL);
CREATE TABLE lifetimes_seen (only INTEGER PRIMARY KEY CHECK (only = 1), at REAL NOT NULL) STRICT;
INSERT INTO "lifetimes_seen" VALUES(1,1800000000.0);
CREATE TABLE looks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        look TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "looks" VALUES(1,1,1800000000.0,'{"provider": "fake", "operates": false, "workers": [{"worker": {"id": "i-w1", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w1", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "phase": "ready", "host": "w1", "closed": false, "decisive": null}, {"worker": {"id": "i-w2", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w2", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "phase": "ready", "host": "w2", "closed": false, "decisive": null}, {"worker": {"id": "i-w3", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w3", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "phase": "draining", "host": "w3", "closed": false, "decisive": null}, {"worker": {"id": "i-w4", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w4", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "phase": "joining", "host": "w4", "closed": false, "decisive": null}, {"worker": {"id": "i-w5", "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "node_array": "execute", "state": "running", "created_at": 1799998200.0, "name": "w5", "address": null, "zone": "", "price_type": "on_demand", "placement_group": "", "price_per_hour": null, "order_id": null, "group_id": null, "ready": true, "message": null, "ending": "", "failure": null}, "phase": "ready", "host": "w5", "closed": false, "decisive": "silent"}], "orders": [], "arrays": [{"name": "execute", "queue": "main.q", "max_workers": 10, "max_cores": null, "max_own_workers": null, "max_own_cores": null, "total_workers": null, "total_cores": null, "extends": null, "buckets": [{"key": {"instance_type": "m5.large", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "price_per_hour": 0.1, "available": null, "problem": null, "any_group": false}], "price_types": ["on_demand"], "wanted": true, "keep_alive": [], "configuration": "{}", "attributes": "{}"}], "stopping": false, "withheld": {}, "rests": [{"bucket": {"instance_type": "m5.4xlarge", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "until": 1800000600.0, "failures": 5, "kind": "capacity", "message": "none left", "failed_at": 1799999999.0}], "refused": {}, "region": "", "subnet": "", "troubles": []}');
CREATE TABLE measures (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        measures TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE memory (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        memory TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "memory" VALUES(1,1800000000.0,'{"passes": 8, "workers": {"i-w4": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "enrol", "left_disabled": [], "seen_disabled": true, "retired_at": null, "enrolling_since": null, "heard_at": null, "opened": false, "host": "w4", "empty_since": 1800000000.0, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": {"instance_type": "m5.large", "node_array": "execute", "zone": "", "price_type": "on_demand", "placement_group": ""}, "silent_s": 0.0, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 2, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w3": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": 1799999940.0, "disabling": "idle", "left_disabled": [], "seen_disabled": true, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "opened": true, "host": "w3", "empty_since": 1799999970.0, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": {"instance_type": "m5.large", "node_array": "execute", "zone": "", "price_type": "on_demand", "placement_group": ""}, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 2, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w1": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "left_disabled": [], "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "opened": true, "host": "w1", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": {"instance_type": "m5.large", "node_array": "execute", "zone": "", "price_type": "on_demand", "placement_group": ""}, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 2, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w2": {"first_seen": 1799996400.0, "idle_since": 1799999940.0, "disabled_at": null, "disabling": null, "left_disabled": [], "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "opened": true, "host": "w2", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": {"instance_type": "m5.large", "node_array": "execute", "zone": "", "price_type": "on_demand", "placement_group": ""}, "silent_s": null, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 2, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}, "i-w5": {"first_seen": 1799996400.0, "idle_since": null, "disabled_at": null, "disabling": null, "left_disabled": [], "seen_disabled": false, "retired_at": null, "enrolling_since": null, "heard_at": 1799996400.0, "opened": true, "host": "w5", "empty_since": null, "enabled_at": null, "terminated_at": null, "missing_since": null, "bucket": {"instance_type": "m5.large", "node_array": "execute", "zone": "", "price_type": "on_demand", "placement_group": ""}, "silent_s": 0.0, "fenced_at": null, "gone": false, "left": false, "only_ended": false, "on_their_way": [], "in_doubt": [], "moved": [], "moved_at": null, "moves": 0, "failed": false, "quarantined": null, "trusted_at": null, "order_id": null, "group_id": "", "vcpus": 2, "price_per_hour": null, "completed_at": null, "asked_at": null, "stop_undone": false, "alarm_since": null}}, "able_since": {}, "unable": [], "details": {}, "swaps": {}, "rests": [{"bucket": {"instance_type": "m5.4xlarge", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "until": 1800000600.0, "failures": 5, "kind": "capacity", "message": "none left", "failed_at": 1799999999.0}], "came_up": [], "reported": [], "stopped": {}, "failures_seen": 0.0, "launches": [], "removals": [], "kills": [], "suspicions": {"5": {"fingerprint": "f", "since": 1799999940.0, "asked_at": null, "asked": 0, "told": {"code": "NO_SUCH_RESOURCE", "facts": [["resource", "lic"], ["asked", "1"]], "trail": []}, "deleted_at": null, "held_at": null, "held": false, "released_at": null, "spared": false}}, "quarantines": [], "quiet_since": 1799999995.0, "hearing": {"w1": null, "w2": null, "w3": null, "w5": 1799999950.0}, "looked_at": 1800000000.0, "asked": [11], "held_back": {"12": {"hosts": ["h1"], "at": 1799999991.0, "pushed_at": 1799999995.0, "released_at": null}}, "trials": {}, "closed_since": {}, "unhelpful": [], "protected": {}, "waiting_notes": [], "waiting_told_at": 1799999901.0, "brake": {"code": "CIRCUIT_BREAKER", "facts": [["what", "removals"], ["count", 300], ["most", 200], ["window_s", 600.0]], "trail": []}}');
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
CREATE TABLE notification_state (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        known TEXT NOT NULL,
        upto INTEGER,
        delivered TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        failing_since REAL,
        next_at REAL NOT NULL,
        message TEXT NOT NULL,
        sent_at REAL,
        dropped INTEGER NOT NULL
    ) STRICT
    ;
INSERT INTO "notification_state" VALUES(1,'{"watched": {"brake ": {"kind": "brake", "subject": "", "since": 1800000000.0, "reason": {"code": "CIRCUIT_BREAKER", "facts": [["what", "removals"], ["count", 300], ["most", 200], ["window_s", 600.0]], "trail": []}, "told": true, "told_at": 1800000000.0, "gone_since": null, "passed": false}}}',NULL,'[]',0,NULL,0.0,'',NULL,0);
CREATE TABLE notifications (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        at REAL NOT NULL,
        reason TEXT NOT NULL,
        passed INTEGER NOT NULL
    ) STRICT
    ;
INSERT INTO "notifications" VALUES(1,'brake','',1800000000.0,'{"code": "CIRCUIT_BREAKER", "facts": [["what", "removals"], ["count", 300], ["most", 200], ["window_s", 600.0]], "trail": []}',0);
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
INSERT INTO "orders" VALUES('b66283cc589c498a9b4bb4bbc1217ddc','execute',1800000000.0,'[{"buckets": [{"key": {"instance_type": "m5.large", "node_array": "", "zone": "", "price_type": "on_demand", "placement_group": ""}, "type": {"name": "m5.large", "family": "m5", "vcpus": 2, "memory": 8589934592, "gpus": 0, "arch": "lx-amd64"}, "price_per_hour": 0.1, "available": null, "problem": null, "any_group": false}], "count": 2, "besides": []}]',NULL,'','','[]',1,'[["k", 2]]');
CREATE TABLE passes (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL,
        sentence TEXT NOT NULL,
        document TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "passes" VALUES(1,7,1800000000.0,'pass 7: 4 jobs wait, 3 fit, 1 does not count (no type fits); nothing to do: 300 removals within 10m are more than the 200 allowed; the circuit breaker stops launches and removals until `sge-autoscaler resume`; waiting for w4 (second observation due); keeping w1 (2 jobs run), w2 (needed); leaving alone w5 (no load report)','{"schema": 1, "now": "2027-01-15T08:00:00+00:00", "sentence": "plan: 4 jobs wait, 3 fit, 1 does not count (no type fits); nothing to do: 300 removals within 10m are more than the 200 allowed; the circuit breaker stops launches and removals until `sge-autoscaler resume`; waiting for w4 (second observation due); keeping w1 (2 jobs run), w2 (needed); leaving alone w5 (no load report)", "actions": [], "notes": [{"code": "CIRCUIT_BREAKER", "text": "300 removals within 10m are more than the 200 allowed; the circuit breaker stops launches and removals until `sge-autoscaler resume`", "facts": {"what": "removals", "count": 300, "most": 200, "window_s": 600.0}, "trail": []}], "waiting": 4, "counted": 3, "fitting": 3, "currency": "USD", "timings": {"read": null, "parse": null, "decide": null}, "shapes": [{"jobs": ["1", "2", "3"], "count": 3, "slots": 1, "tasks": 3, "counted": true, "waited_s": 60.0, "reason": {"code": "WAITS_FOR_COMING", "text": "1 task of 3 jobs that ask for the same can start on workers that are coming", "facts": {"tasks": 1, "alike": 3}, "trail": []}}, {"jobs": ["5"], "count": 1, "slots": 1, "tasks": 1, "counted": false, "waited_s": 60.0, "reason": {"code": "NO_TYPE_FITS", "text": "it requests 1 slot on one host; the largest worker allowed has 2, and at most 10 are allowed; it also requests lic=1; not proven unsatisfiable: left alone; an existing host could run it once it is empty", "facts": {"slots": 1, "where": "one host", "largest": 2, "workers": 10, "besides": ["lic=1"]}, "trail": [{"code": "UNPROVEN", "text": "not proven unsatisfiable: left alone; an existing host could run it once it is empty", "facts": {}, "trail": [{"code": "FITS_WHEN_FREE", "text": "an existing host could run it once it is empty", "facts": {}, "trail": []}]}]}}], "workers": [{"name": "w4", "id": "i-w4", "verdict": "wait", "reason": {"code": "SECOND_OBSERVATION", "text": "the next step needs one more observation", "facts": {}, "trail": []}}, {"name": "w3", "id": "i-w3", "verdict": "wait", "reason": {"code": "EMPTY", "text": "two observations showed it disabled and empty; it was idle; 300 removals within 10m are more than the 200 allowed; the circuit breaker stops launches and removals until `sge-autoscaler resume`", "facts": {}, "trail": [{"code": "IDLE", "text": "it was idle", "facts": {}, "trail": []}, {"code": "CIRCUIT_BREAKER", "text": "300 removals within 10m are more than the 200 allowed; the circuit breaker stops launches and removals until `sge-autoscaler resume`", "facts": {"what": "removals", "count": 300, "most": 200, "window_s": 600.0}, "trail": []}]}}, {"name": "w1", "id": "i-w1", "verdict": "keep", "reason": {"code": "RUNS_JOBS", "text": "it runs jobs 9000, 9001", "facts": {"jobs": ["9000", "9001"]}, "trail": []}}, {"name": "w2", "id": "i-w2", "verdict": "keep", "reason": {"code": "NEEDED", "text": "waiting jobs can use it", "facts": {}, "trail": []}}, {"name": "w5", "id": "i-w5", "verdict": "wait", "reason": {"code": "NO_LOAD_REPORT", "text": "qmaster has no load report from it; its jobs may still run", "facts": {}, "trail": []}}], "buckets": []}');
CREATE TABLE payers (
        id INTEGER PRIMARY KEY,
        user TEXT NOT NULL,
        "group" TEXT NOT NULL,
        department TEXT NOT NULL,
        project TEXT NOT NULL,
        account TEXT NOT NULL,
        queue TEXT NOT NULL,
        UNIQUE (user, "group", department, project, account, queue)
    ) STRICT
    ;
CREATE TABLE plans (
        id INTEGER PRIMARY KEY,
        pass INTEGER NOT NULL,
        at REAL NOT NULL
    ) STRICT
    ;
INSERT INTO "plans" VALUES(1,7,1800000000.0);
CREATE TABLE request_sets (
        name TEXT PRIMARY KEY,
        by TEXT NOT NULL,
        at REAL NOT NULL,
        expires_at REAL,
        targets TEXT NOT NULL,
        arrays TEXT NOT NULL
    ) STRICT
    ;
INSERT INTO "request_sets" VALUES('standard','ann',1800000000.0,NULL,'[{"node_array": "burst", "count": 2, "cores": null, "groups": null, "group_cores": null, "group_count": null}]','["burst"]');
CREATE TABLE said_of_arrays (
        name TEXT NOT NULL,
        set_name TEXT NOT NULL,
        number INTEGER NOT NULL,
        makes INTEGER NOT NULL,
        definition TEXT NOT NULL,
        PRIMARY KEY (name, set_name)
    ) STRICT
    ;
INSERT INTO "said_of_arrays" VALUES('burst','standard',1,1,'{"name": "burst", "dynamic": true, "extends": "execute", "machine_types": [], "price_type": null, "max_count": 7, "max_cores": null, "group_cores": null, "group_count": null, "keep_alive": [], "health_check": null, "configuration": "{}", "attributes": "{}", "said_by": [], "wanted": true}');
CREATE TABLE samples (
        resolution INTEGER NOT NULL,
        at REAL NOT NULL,
        seconds REAL NOT NULL,
        waiting REAL NOT NULL, counted REAL NOT NULL, fitting REAL NOT NULL, running REAL NOT NULL, slots REAL NOT NULL, slots_used REAL NOT NULL, persistent REAL NOT NULL, started REAL NOT NULL, waited REAL NOT NULL, longest_wait REAL NOT NULL, most_waiting REAL NOT NULL, longest_waited REAL NOT NULL,
        PRIMARY KEY (resolution, at)
    ) STRICT, WITHOUT ROWID
    ;
CREATE TABLE service_settings (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        settings TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE usage_marks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        inode INTEGER,
        offset INTEGER,
        mark BLOB,
        seen_at REAL,
        since REAL,
        forgotten REAL
    ) STRICT
    ;
INSERT INTO "usage_marks" VALUES(1,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE usages (
        worker_id TEXT NOT NULL,
        job INTEGER NOT NULL,
        task INTEGER NOT NULL,
        began REAL NOT NULL,
        ended REAL,
        slots INTEGER NOT NULL,
        payer INTEGER NOT NULL REFERENCES payers(id),
        observed INTEGER NOT NULL,
        PRIMARY KEY (worker_id, job, task, began)
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
INSERT INTO "verbs" VALUES(1,'restart','i-w1',1800000000.0,'ann',NULL,NULL,NULL,'');
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
INSERT INTO "wishes" VALUES(1,1800000000.0,'ann','keep','w2',NULL,'');
INSERT INTO "wishes" VALUES(2,1800000000.0,'ann','drain','w1',NULL,'');
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
CREATE INDEX events_by_job ON events(first_job, last_job);
CREATE INDEX events_of_workers ON events(order_id) WHERE kind = 'joined';
CREATE INDEX lifetimes_by_end ON lifetimes(ended_at);
CREATE INDEX usages_by_end ON usages(ended);
CREATE INDEX usages_observed ON usages(job, task) WHERE observed = 1;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('notifications',1);
COMMIT;
PRAGMA user_version=22;
