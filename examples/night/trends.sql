-- Each store over its full runs: messages, bytes, errors and losses, and what each run has more than the
-- one before. `run_at` is when the run began, in UTC. Runs on Spark, DuckDB, Trino and Athena.
SELECT
  CAST(concat(
    substr(run_id, 1, 4), '-', substr(run_id, 5, 2), '-', substr(run_id, 7, 2), ' ',
    substr(run_id, 10, 2), ':', substr(run_id, 12, 2), ':', substr(run_id, 14, 2)
  ) AS timestamp) AS run_at,
  run_id, broker, root, state, message_count, byte_count, error_count, warning_count, lost_record_count,
  message_count - lag(message_count) OVER (PARTITION BY coalesce(root, root_b64) ORDER BY run_id) AS message_growth,
  byte_count - lag(byte_count) OVER (PARTITION BY coalesce(root, root_b64) ORDER BY run_id) AS byte_growth,
  error_count - lag(error_count) OVER (PARTITION BY coalesce(root, root_b64) ORDER BY run_id) AS error_growth
FROM stores
WHERE level = 'full'
ORDER BY broker, run_id
