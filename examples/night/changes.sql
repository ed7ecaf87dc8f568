-- Errors and warnings that are new in a run of a store, and those that are gone, by the tables of
-- `rocketfsck check … --tables`, which are here `stores` and `findings`. A finding is the same in two runs if its
-- rule and its place are; `nth` counts those of one rule at one place. A run of a store without a comparable run
-- before it has no rows. Runs on Spark, DuckDB, Trino and Athena.
WITH problems AS (
  SELECT
    run_id, broker, root, severity, rule, slug, file, physical_offset, topic, queue_id, message, fingerprint,
    coalesce(root, root_b64) AS store,
    concat(rule, ' ', coalesce(file, file_b64, ''), ' ', coalesce(topic, topic_b64, '')) AS what,
    coalesce(start, -1) AS at_pos, coalesce(queue_id, -1) AS at_queue, coalesce(queue_offset, -1) AS at_offset,
    coalesce(slot, -1) AS at_slot, coalesce(entry, -1) AS at_entry,
    row_number() OVER (
      PARTITION BY run_id, coalesce(root, root_b64), rule, coalesce(file, file_b64, ''),
        coalesce(topic, topic_b64, ''), start, queue_id, queue_offset, slot, entry
      ORDER BY fingerprint
    ) AS nth
  FROM findings
  WHERE severity <> 'info'
),
compared AS (
  SELECT run_id, compared_run_id, coalesce(root, root_b64) AS store
  FROM stores
  WHERE compared_run_id IS NOT NULL
)
SELECT
  'new' AS change, c.run_id, c.compared_run_id, p.broker, p.root, p.severity, p.rule, p.slug, p.file,
  p.physical_offset, p.topic, p.queue_id, p.message, p.fingerprint
FROM compared AS c
JOIN problems AS p ON p.run_id = c.run_id AND p.store = c.store
LEFT JOIN problems AS e
  ON e.run_id = c.compared_run_id AND e.store = p.store AND e.what = p.what AND e.at_pos = p.at_pos
  AND e.at_queue = p.at_queue AND e.at_offset = p.at_offset AND e.at_slot = p.at_slot
  AND e.at_entry = p.at_entry AND e.nth = p.nth
WHERE e.run_id IS NULL
UNION ALL
SELECT
  'gone' AS change, c.run_id, c.compared_run_id, p.broker, p.root, p.severity, p.rule, p.slug, p.file,
  p.physical_offset, p.topic, p.queue_id, p.message, p.fingerprint
FROM compared AS c
JOIN problems AS p ON p.run_id = c.compared_run_id AND p.store = c.store
LEFT JOIN problems AS e
  ON e.run_id = c.run_id AND e.store = p.store AND e.what = p.what AND e.at_pos = p.at_pos
  AND e.at_queue = p.at_queue AND e.at_offset = p.at_offset AND e.at_slot = p.at_slot
  AND e.at_entry = p.at_entry AND e.nth = p.nth
WHERE e.run_id IS NULL
ORDER BY run_id, broker, change, rule
