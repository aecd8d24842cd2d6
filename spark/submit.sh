#!/usr/bin/env bash
# spark-submit of the PySpark in use, with the settings of this folder: it writes what the script writes, and opens no
# web UI. Options of spark-submit come before the script, those of the script after it.
#
#     spark/submit.sh [--master spark://HOST:7077] [--conf NAME=VALUE ...] spark/capture.py ARCHIVE --hour HOUR
#
# Its Python is that of this checkout's .venv unless PYSPARK_PYTHON names another one; nats3_dagster must be installed
# there, and on a cluster at the same place on every worker.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
: "${PYSPARK_PYTHON:=$here/../.venv/bin/python}"
if ! command -v "$PYSPARK_PYTHON" >/dev/null; then
    echo "Error: There is no Python at $PYSPARK_PYTHON. Run make setup, or name one with nats3_dagster in PYSPARK_PYTHON" >&2
    exit 2
fi
: "${SPARK_HOME:=$("$PYSPARK_PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}"
case " $* " in
*" --master local"*) local=yes ;;
*" --master "*) local= ;;
*) local=yes ;;
esac
# The settings as arguments: beside a folder on its class path a JVM takes no archive of Spark's classes, and needs 4 s
# longer. By the folder where SPARK_CONF_DIR names another one, or an option would take the place of an argument.
ours=
case " $* " in
*" --properties-file "* | *" --driver-java-options "*) ;;
*)
    [ "${SPARK_CONF_DIR:-}" ] || ours=$("$PYSPARK_PYTHON" -c '
import shlex
from nats3_dagster.pipeline import classes, java
print(shlex.join(java.submit_arguments(classes.options(java.find_java()))))' 2>/dev/null) || ours=
    ;;
esac
if [ "$ours" ]; then
    # On this machine Python workers begin with their imports done.
    [ -z "$local" ] || ours="$ours --conf spark.python.daemon.module=nats3_dagster.pipeline.worker_daemon"
    eval "set -- $ours \"\$@\""
else
    export SPARK_CONF_DIR="${SPARK_CONF_DIR:-$here}"
fi
# On this machine alone Spark needs no host name, and fails where the name has no address.
[ -z "$local" ] || export SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
export PYSPARK_PYTHON SPARK_HOME
# A JVM says first that it has an incubator module, which Spark's launcher gives it.
exec "$SPARK_HOME/bin/spark-submit" "$@" 2> >(exec grep --line-buffered -v '^WARNING: Using incubator modules' >&2)
