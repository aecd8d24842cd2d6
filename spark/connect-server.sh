#!/bin/sh
# A Spark Connect server for nats3, in the foreground: captures and replays then start no JVM of their own.
#
#     spark/connect-server.sh [spark-submit's options]        then set NATS3_SPARK_REMOTE=sc://127.0.0.1:15002
#
# Its Python is that of this checkout's .venv unless PYSPARK_PYTHON says another; nats3_dagster must be installed there.
# It listens on loopback: whoever reaches it runs code as its user. Tasks bring the credentials they use, so give it
# TLS (a proxy, use_ssl=true) and a token (spark.connect.authenticate.token) before it listens anywhere else.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
: "${PYSPARK_PYTHON:=$here/../.venv/bin/python}"
: "${SPARK_HOME:=$("$PYSPARK_PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}"
: "${SPARK_CONF_DIR:=$here}"
: "${SPARK_LOCAL_IP:=127.0.0.1}"
export PYSPARK_PYTHON SPARK_HOME SPARK_CONF_DIR SPARK_LOCAL_IP
# On this machine Python workers begin with their imports done, unless a configuration of yours names a cluster.
case " $* " in
*" --master "*) ;;
*)
    [ "$SPARK_CONF_DIR" != "$here" ] ||
        set -- --conf spark.python.daemon.module=nats3_dagster.pipeline.worker_daemon "$@"
    ;;
esac
exec "$SPARK_HOME/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer \
    --conf spark.connect.grpc.binding.address=127.0.0.1 "$@" spark-internal
