#!/usr/bin/env bash
# Runs what it is given. Spark on Kubernetes gives "executor" to the pods that it makes, and says the
# rest in variables; their names are Spark's.
set -euo pipefail

if [ "${1:-}" != executor ]; then
    exec "$@"
fi

# One option of Java each, in the order of their numbers.
mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4,4n | cut -d= -f2-)

exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
    "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
