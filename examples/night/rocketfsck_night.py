"""A check of all stores every night, for Airflow 3: the task fails where a person is needed.

That is where something is new since the last run (exit status 4), or could not be read (8), or nothing was
checked (16 and more). What Airflow does about a task that failed, like an `on_failure_callback`, is yours to
add. The worker sees the stores and the tables under these paths, which may be URLs.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

STORES = "'/data/broker-*'"
TABLES = "/var/lib/rocketfsck/checks"
CHECK = f"rocketfsck check --background --alert-on new --tables {TABLES} {STORES}"
PAGE = f"rocketfsck page {TABLES} -o /var/lib/rocketfsck/newest.html"

with DAG(
    dag_id="rocketfsck_night",
    schedule="17 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    # One task: a page in a task of its own, at the end, would make the run of the DAG a success. No retries:
    # for a second run, nothing would be new.
    BashOperator(
        task_id="check",
        bash_command=f"{CHECK}; status=$?; {PAGE}; exit $status",
        retries=0,
        execution_timeout=timedelta(hours=6),
        do_xcom_push=False,
    )
