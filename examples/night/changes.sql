-- Errors and warnings that are new in a run of a store, and those that are gone, by the tables of
-- `rocketfsck check … --tables`, which are here `stores` and `findings`. A run of a store without a
-- comparable run before it has no rows. Runs on Spark, DuckDB, Trino and Athena.
SELECT
  'new' AS change, s.run_id, s.compared_run_id, f.broker, f.root, f.severity, f.rule, f.slug, f.file,
  f.physical_offset, f.topic, f.queue_id, f.message, f.fingerprint
FROM stores AS s
JOIN findings AS f
  ON f.run_id = s.run_id AND coalesce(f.root, f.root_b64) = coalesce(s.root, s.root_b64)
LEFT JOIN findings AS e
  ON e.run_id = s.compared_run_id AND coalesce(e.root, e.root_b64) = coalesce(s.root, s.root_b64)
  AND e.fingerprint = f.fingerprint AND e.severity <> 'info'
WHERE s.compared_run_id IS NOT NULL AND f.severity <> 'info' AND e.run_id IS NULL
UNION ALL
SELECT
  'gone' AS change, s.run_id, s.compared_run_id, e.broker, e.root, e.severity, e.rule, e.slug, e.file,
  e.physical_offset, e.topic, e.queue_id, e.message, e.fingerprint
FROM stores AS s
JOIN findings AS e
  ON e.run_id = s.compared_run_id AND coalesce(e.root, e.root_b64) = coalesce(s.root, s.root_b64)
LEFT JOIN findings AS f
  ON f.run_id = s.run_id AND coalesce(f.root, f.root_b64) = coalesce(s.root, s.root_b64)
  AND f.fingerprint = e.fingerprint AND f.severity <> 'info'
WHERE e.severity <> 'info' AND f.run_id IS NULL
ORDER BY run_id, broker, change, rule
