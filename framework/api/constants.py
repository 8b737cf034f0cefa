"""Names of the API: kinds, annotations, labels, environment variables, spec extensions, files.

Python 3.7 syntax, because the zipapp of the agents contains this file. Names of the original are
those of microsoft/frameworkcontroller ``constants.go``. docs/api.md lists the names for users, and
a test compares the two.
"""

GROUP = "frameworkcontroller.microsoft.com"
VERSION = "v1"
API_VERSION = GROUP + "/" + VERSION
FRAMEWORK_KIND = "Framework"
FRAMEWORK_PLURAL = "frameworks"
FRAMEWORK_CRD_NAME = FRAMEWORK_PLURAL + "." + GROUP
TASK_KIND = "Task"
CONFIGMAP_KIND = "ConfigMap"
POD_KIND = "Pod"
COMPONENT_NAME = "frameworkcontroller"

# --- On every object of the controller: annotations, the first three also labels -------------

FRAMEWORK_NAMESPACE = "FC_FRAMEWORK_NAMESPACE"
FRAMEWORK_NAME = "FC_FRAMEWORK_NAME"
TASKROLE_NAME = "FC_TASKROLE_NAME"
TASK_INDEX = "FC_TASK_INDEX"
CONFIGMAP_NAME = "FC_CONFIGMAP_NAME"
POD_NAME = "FC_POD_NAME"
FRAMEWORK_UID = "FC_FRAMEWORK_UID"
FRAMEWORK_ATTEMPT_ID = "FC_FRAMEWORK_ATTEMPT_ID"
FRAMEWORK_ATTEMPT_INSTANCE_UID = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"
CONFIGMAP_UID = "FC_CONFIGMAP_UID"
TASKROLE_UID = "FC_TASKROLE_UID"
TASK_UID = "FC_TASK_UID"
TASK_ATTEMPT_ID = "FC_TASK_ATTEMPT_ID"
# Environment only: set by the downward API when the container starts.
POD_UID = "FC_POD_UID"
TASK_ATTEMPT_INSTANCE_UID = "FC_TASK_ATTEMPT_INSTANCE_UID"
POD_UID_FIELD_PATH = "metadata.uid"

# Placeholders ``{{NAME}}`` replaced once in any string of a Pod template, in this order.
TEMPLATE_PLACEHOLDERS = (
    FRAMEWORK_NAMESPACE,
    FRAMEWORK_NAME,
    TASKROLE_NAME,
    TASK_INDEX,
    CONFIGMAP_NAME,
    POD_NAME,
)

# Annotations with the Framework, the attempt and the Task of an object.
IDENTITY_ANNOTATIONS = (
    *TEMPLATE_PLACEHOLDERS,
    FRAMEWORK_UID,
    FRAMEWORK_ATTEMPT_ID,
    FRAMEWORK_ATTEMPT_INSTANCE_UID,
    CONFIGMAP_UID,
    TASKROLE_UID,
    TASK_UID,
    TASK_ATTEMPT_ID,
)

FOREGROUND_DELETION_FINALIZER = "foregroundDeletion"

# --- Not in the original: annotations
# ---------------------------------------------------------------------------

ANNOTATION_PREFIX = "frameworkbarrier.io/"
# On the attempt ConfigMap: its controller publishes rosters. The value is ROSTER_VERSION.
ROSTER_VERSION_ANNOTATION = ANNOTATION_PREFIX + "roster-version"
# On the attempt ConfigMap: the generation of the roster in binaryData, a decimal number from 1.
GENERATION_ANNOTATION = ANNOTATION_PREFIX + "generation"
# On the attempt ConfigMap before the gang is complete: JSON {ready, total, missing}, at most 2 kB.
# Earlier releases call the readiness "progress": agents and controllers of both can work together.
READINESS_ANNOTATION = ANNOTATION_PREFIX + "progress"
# Reason in the readiness for a Task whose Pod is not created yet.
POD_NOT_CREATED = "Pod is not created yet"
# On a Pod, written by its own agent: the newest generation that the agent has applied.
ACKNOWLEDGED_GENERATION_ANNOTATION = ANNOTATION_PREFIX + "acknowledged-generation"
PROCESS_ENDED_ANNOTATION = ANNOTATION_PREFIX + "process-ended"
EPOCH_STARTED_ANNOTATION = ANNOTATION_PREFIX + "epoch-started"
TRAINING_PROGRESS_ANNOTATION = ANNOTATION_PREFIX + "training-progress"
# On the Pod of a launcher, written by its own agent: the result of a scaler, JSON.
SCALER_RESULT_ANNOTATION = ANNOTATION_PREFIX + "scaler-result"
# On the Framework of a TrainingJob: its workers, after a scaler has changed them, JSON.
SCALED_WORKERS_ANNOTATION = ANNOTATION_PREFIX + "scaled-workers"
# On every object of the controller: its creation proof (see status.creatorKeys).
CREATION_PROOF_ANNOTATION = ANNOTATION_PREFIX + "creation-proof"
# On a Pod template: PID 1 is the wrapper, which ends when the attempt completes.
WRAPPER_ANNOTATION = ANNOTATION_PREFIX + "wrapper"
# On a Pod template: the exit codes of a container that are retried, "tensorflow=128-255".
RETRYABLE_CODES_ANNOTATION = ANNOTATION_PREFIX + "retryable-exit-codes"
# On a TrainingJob: its workers leave before their nodes go, "timeoutSeconds=120".
LEAVE_NODES_ANNOTATION = ANNOTATION_PREFIX + "leave-nodes"
# On a Framework, written by its user: UIDs of Pods whose Tasks are to be retried, comma-separated.
RETRY_ANNOTATION = ANNOTATION_PREFIX + "retry"

# Key in the Secret ``{framework}-gang-key``.
GANG_KEY = "gang-key"
# Further keys of it: the certificate of the attempt and its private key, in PEM.
GANG_CERTIFICATE = "gang-tls.crt"
GANG_CERTIFICATE_KEY = "gang-tls.key"

ROSTER_VERSION = "1"
# Key in binaryData of the attempt ConfigMap.
ROSTER_KEY = "roster.json.gz"
# Key in binaryData of the attempt ConfigMap: the scaler that is in progress.
SCALER_KEY = "scaler.json"
READINESS_MAX_BYTES = 2048
READINESS_MAX_MISSING = 10

# --- Not in the original: fields of spec and status, all optional --------------------------

ABSENT_TASK_INDICES_FIELD = "absentTaskIndices"  # taskRoles[]: absent indexes
MIN_MEMBER_COUNT_FIELD = "minMemberCount"  # taskRoles[]: quorum
DRAIN_FIELD = "drain"  # taskRoles[]: {timeoutSec}
TRAINING_PROGRESS_FIELD = "progress"  # attemptStatus: how far the training is
RECOVERY_FIELD = "recovery"  # taskRoles[]: {inPlace: {maxRestarts, withinSeconds}}
IN_PLACE_FIELD = "inPlace"
LEAVE_NODES_FIELD = "leaveNodes"  # recovery: {timeoutSeconds, maxLeaves, withinSeconds}
TIMEOUT_SECONDS_FIELD = "timeoutSeconds"
MAX_LEAVES_FIELD = "maxLeaves"
MAX_LEAVE_SECONDS = 86_400  # of timeoutSeconds
MAX_LEAVES = 1000
LEAVING_FIELD = "leaving"  # attemptStatus of a Task: why it leaves
LEAVES_FIELD = "leaves"  # taskStatuses[]: how often the Task has left
AVOID_NODES_FIELD = "avoidNodes"  # recovery: {failures, withinSeconds, maxNodes}
FAILURES_FIELD = "failures"
MAX_NODES_FIELD = "maxNodes"
MAX_AVOIDED_FAILURES = 10  # of failures
MAX_AVOIDED_NODES = 16  # of maxNodes
# Of all Tasks of a Framework together. In a compressed status, 10 of them take about 200 bytes.
MAX_NODE_FAILURES = 20_000
NODE_FAILURES_FIELD = "nodeFailures"  # taskStatuses[]: where the Task failed, and when
AVOIDED_NODES_FIELD = "avoidedNodes"  # attemptStatus of a Task: nodes that its Pod avoids
MAX_RESTARTS_FIELD = "maxRestarts"
WITHIN_SECONDS_FIELD = "withinSeconds"
# On a Pod template, written by programs that cannot write the field:
# "maxRestarts=3,withinSeconds=3600".
IN_PLACE_ANNOTATION = ANNOTATION_PREFIX + "restart-in-place"
# The status stores the time of each restart within the window.
MAX_IN_PLACE_RESTARTS = 100
# 31 years, and as many digits as the annotation may have.
MAX_IN_PLACE_SECONDS = 999_999_999
# Exit code of an agent, or code of its report, after it killed a process of a gang that stood
# still.
HUNG_EXIT_CODE = 202
DRAIN_TIMEOUT_FIELD = "timeoutSec"
COMPLETED_POD_POLICY_FIELD = "completedPodPolicy"  # spec, taskRoles[]: until when Pods stay
POD_LEFT_RUNNING_CODE = -221  # completion code of a Task whose Pod runs on after the end
SUSPEND_FIELD = "suspend"  # spec: true | false
ACTIVE_DEADLINE_FIELD = "activeDeadlineSeconds"  # spec
TTL_FIELD = "ttlSecondsAfterFinished"  # spec
ACTIVE_START_FIELD = "activeStartTime"  # status: when the deadline began to count
DRAIN_DEADLINE_FIELD = "drainDeadlineTime"  # status of a Task that drains
CONDITIONS_FIELD = "conditions"  # status
QUICK_END_COUNT_FIELD = "quickEndCount"  # retryPolicyStatus: quick ends in a row
BLOCKED_CONDITION = "Blocked"  # type of a condition: a user must act
GANG_READY_CONDITION = "GangReady"  # type of a condition: the gang is complete
SUSPENDED_CONDITION = "Suspended"  # type of a condition: no Pods until a user resumes it
NAME_TAKEN_REASON = "NameTaken"  # reason of Blocked: another owner has an object of that name
CREATION_REFUSED_REASON = "CreationRefused"  # reason of Blocked: the API server refuses the object
RETRY_BACKOFF_REASON = "RetryBackoff"  # reason of Blocked: retries are paused after quick ends
OBSERVED_GENERATION_FIELD = "observedGeneration"  # status
CREATOR_KEYS_FIELD = "creatorKeys"  # attemptStatus: public keys of its controllers
ACCEPTS_UNSIGNED_FIELD = (
    "acceptsUnsigned"  # attemptStatus: the attempt began before creation proofs existed
)
READY_TASKS_FIELD = "readyTasks"  # status: "3/5", running or succeeded of the wanted Tasks

# --- Limits --------------------------------------------------------------------------------------

MAX_TASK_NUMBER = 10000
# Limits of a Framework in the CRD, and defaults of the controller.
MAX_TASK_ROLES = 256
MAX_TASKS = 10000
MAX_ABSENT_TASK_INDICES = MAX_TASK_NUMBER
# Default limit of a request to etcd: 1.5 MiB.
MAX_OBJECT_BYTES = 1536 * 1024
UNLIMITED = -1
EXTENDED_UNLIMITED = -2
COMPRESSION_MIN_BYTES = 700 * 1024
# Each controller that starts adds its key. Only creates with the newest keys can be in flight.
MAX_CREATOR_KEYS = 8

# --- The barrier's contract with Pods ------------------------------------------------------------

WORKING_DIR = "/mnt/frameworkbarrier"
WORKING_DIR_ENV = "BARRIER_WORKING_DIR"
BARRIER_CHECK_INTERVAL_ENV = "BARRIER_CHECK_INTERVAL_SEC"
BARRIER_CHECK_TIMEOUT_ENV = "BARRIER_CHECK_TIMEOUT_SEC"
BARRIER_QUORUM_GRACE_ENV = "BARRIER_QUORUM_GRACE_SEC"
BARRIER_FRAMEWORK_JSON_ENV = "BARRIER_FRAMEWORK_JSON"
BARRIER_REQUIRE_ENV = "BARRIER_REQUIRE"
BARRIER_EXPECT_ENV = "BARRIER_EXPECT"
BARRIER_DNS_NAME_ENV = "BARRIER_DNS_NAME"
BARRIER_LOG_ENV = "BARRIER_LOG"
FRAMEWORK_JSON_FILE = "framework.json"
INJECTOR_FILE = "injector.sh"
TERMINATION_LOG = "/dev/termination-log"
TERMINATION_LOG_ENV = "BARRIER_TERMINATION_LOG"

# --- How a program finds the API server ----------------------------------------------------------

KUBE_APISERVER_ADDRESS_ENV = "KUBE_APISERVER_ADDRESS"
KUBECONFIG_ENV = "KUBECONFIG"
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVICE_ACCOUNT_DIR_ENV = "FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR"

# The extended resource of GPUs, as device plugins call it.
GPU_RESOURCE = "nvidia.com/gpu"
