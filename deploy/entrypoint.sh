#!/bin/bash
# What the image runs: the command that it is given; or, for the word `executor`, an executor of Spark on Kubernetes.
# That word and the variables are how Spark's scheduler asks an image for one.
set -eu
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
: "${SPARK_HOME:=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}"
export SPARK_HOME
java=java
[ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
# SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ...: one option each, which may hold spaces.
options=()
for name in "${!SPARK_JAVA_OPT_@}"; do
    options+=("${!name}")
done
exec "$java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
