-- The end of nextdue in a file. The drops are run in one transaction.

-- What of the user's leans on our tables.
-- :name user_triggers
SELECT type, name FROM main.sqlite_master
WHERE name NOT LIKE 'nextdue\_%' ESCAPE '\' AND tbl_name NOT LIKE 'nextdue\_%' ESCAPE '\'
  AND type IN ('view', 'trigger') AND sql LIKE '%nextdue\_%' ESCAPE '\'
UNION ALL
SELECT type, name FROM main.sqlite_master
WHERE name NOT LIKE 'nextdue\_%' ESCAPE '\' AND tbl_name LIKE 'nextdue\_%' ESCAPE '\'
  AND name NOT LIKE 'sqlite\_%' ESCAPE '\'

-- :name others
SELECT count(*) FROM main.sqlite_master
WHERE name NOT LIKE 'nextdue\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'

-- :name uninstall_tasks_view
DROP VIEW IF EXISTS main.nextdue_tasks

-- :name uninstall_runs_view
DROP VIEW IF EXISTS main.nextdue_runs

-- :name uninstall_task
DROP TABLE IF EXISTS main.nextdue_task

-- :name uninstall_mark
DROP TABLE IF EXISTS main.nextdue_mark

-- :name uninstall_event
DROP TABLE IF EXISTS main.nextdue_event

-- :name uninstall_run
DROP TABLE IF EXISTS main.nextdue_run

-- :name uninstall_pause
DROP TABLE IF EXISTS main.nextdue_pause

-- :name uninstall_rate
DROP TABLE IF EXISTS main.nextdue_rate

-- :name uninstall_result
DROP TABLE IF EXISTS main.nextdue_result

-- :name uninstall_schedule
DROP TABLE IF EXISTS main.nextdue_schedule

-- :name uninstall_lane
DROP TABLE IF EXISTS main.nextdue_lane

-- :name uninstall_worker
DROP TABLE IF EXISTS main.nextdue_worker

-- :name uninstall_meta
DROP TABLE IF EXISTS main.nextdue_meta
