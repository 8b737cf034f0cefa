"""The fields of the built-in kinds: names, JSON types and strategic-merge keys, as a table.

Read by ``wire`` (decoding as the API server's Go types do) and ``strategic``. One type a paragraph:
``Type field:code field:code``; a line that starts with blanks goes on with the type before. Taken
from the OpenAPI document of Kubernetes 1.34 for the kinds in ``builtins``.

Codes: s string, i int32, l int64, f float, b bool, q quantity, t time, m time with microseconds,
B base64, x int or string, * any JSON, ``{c}`` map from string, ``[c]`` list, else a type's name.
``@key`` after a list: strategic merge joins items by that key, ``@`` alone: as a set of primitives.
``~``: the patch strategy retainKeys.
"""

WIRE_TYPES = """
AWSElasticBlockStoreVolumeSource fsType:s partition:i readOnly:b volumeID:s
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AggregationRule clusterRoleSelectors:[LabelSelector]
AppArmorProfile localhostProfile:s type:s
AttachedVolume devicePath:s name:s
AzureDiskVolumeSource cachingMode:s diskName:s diskURI:s fsType:s kind:s readOnly:b
AzureFileVolumeSource readOnly:b secretName:s shareName:s
Binding apiVersion:s kind:s metadata:ObjectMeta target:ObjectReference
CSIVolumeSource driver:s fsType:s nodePublishSecretRef:LocalObjectReference readOnly:b
  volumeAttributes:{s}
Capabilities add:[s] drop:[s]
CephFSVolumeSource monitors:[s] path:s readOnly:b secretFile:s secretRef:LocalObjectReference
  user:s
CinderVolumeSource fsType:s readOnly:b secretRef:LocalObjectReference volumeID:s
ClientIPConfig timeoutSeconds:i
ClusterRole aggregationRule:AggregationRule apiVersion:s kind:s metadata:ObjectMeta
  rules:[PolicyRule]
ClusterRoleBinding apiVersion:s kind:s metadata:ObjectMeta roleRef:RoleRef subjects:[Subject]
ClusterTrustBundleProjection labelSelector:LabelSelector name:s optional:b path:s signerName:s
Condition lastTransitionTime:t message:s observedGeneration:l reason:s status:s type:s
ConfigMap apiVersion:s binaryData:{B} data:{s} immutable:b kind:s metadata:ObjectMeta
ConfigMapEnvSource name:s optional:b
ConfigMapKeySelector key:s name:s optional:b
ConfigMapNodeConfigSource kubeletConfigKey:s name:s namespace:s resourceVersion:s uid:s
ConfigMapProjection items:[KeyToPath] name:s optional:b
ConfigMapVolumeSource defaultMode:i items:[KeyToPath] name:s optional:b
Container args:[s] command:[s] env:[EnvVar]@name envFrom:[EnvFromSource] image:s imagePullPolicy:s
  lifecycle:Lifecycle livenessProbe:Probe name:s ports:[ContainerPort]@containerPort
  readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements
  restartPolicy:s restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext
  startupProbe:Probe stdin:b stdinOnce:b terminationMessagePath:s terminationMessagePolicy:s tty:b
  volumeDevices:[VolumeDevice]@devicePath volumeMounts:[VolumeMount]@mountPath workingDir:s
ContainerExtendedResourceRequest containerName:s requestName:s resourceName:s
ContainerImage names:[s] sizeBytes:l
ContainerPort containerPort:i hostIP:s hostPort:i name:s protocol:s
ContainerResizePolicy resourceName:s restartPolicy:s
ContainerRestartRule action:s exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator:s values:[i]
ContainerState running:ContainerStateRunning terminated:ContainerStateTerminated
  waiting:ContainerStateWaiting
ContainerStateRunning startedAt:t
ContainerStateTerminated containerID:s exitCode:i finishedAt:t message:s reason:s signal:i
  startedAt:t
ContainerStateWaiting message:s reason:s
ContainerStatus allocatedResources:{q} allocatedResourcesStatus:[ResourceStatus]@name
  containerID:s image:s imageID:s lastState:ContainerState name:s ready:b
  resources:ResourceRequirements restartCount:i started:b state:ContainerState stopSignal:s
  user:ContainerUser volumeMounts:[VolumeMountStatus]@mountPath
ContainerUser linux:LinuxContainerUser
CrdServiceReference name:s namespace:s path:s port:i
CustomResourceColumnDefinition description:s format:s jsonPath:s name:s priority:i type:s
CustomResourceConversion strategy:s webhook:WebhookConversion
CustomResourceDefinition apiVersion:s kind:s metadata:ObjectMeta spec:CustomResourceDefinitionSpec
  status:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition lastTransitionTime:t message:s reason:s status:s type:s
CustomResourceDefinitionNames categories:[s] kind:s listKind:s plural:s shortNames:[s] singular:s
CustomResourceDefinitionSpec conversion:CustomResourceConversion group:s
  names:CustomResourceDefinitionNames preserveUnknownFields:b scope:s
  versions:[CustomResourceDefinitionVersion]
CustomResourceDefinitionStatus acceptedNames:CustomResourceDefinitionNames
  conditions:[CustomResourceDefinitionCondition] storedVersions:[s]
CustomResourceDefinitionVersion additionalPrinterColumns:[CustomResourceColumnDefinition]
  deprecated:b deprecationWarning:s name:s schema:CustomResourceValidation
  selectableFields:[SelectableField] served:b storage:b subresources:CustomResourceSubresources
CustomResourceSubresourceScale labelSelectorPath:s specReplicasPath:s statusReplicasPath:s
CustomResourceSubresourceStatus
CustomResourceSubresources scale:CustomResourceSubresourceScale
  status:CustomResourceSubresourceStatus
CustomResourceValidation openAPIV3Schema:JSONSchemaProps
DaemonEndpoint Port:i
DeleteOptions apiVersion:s dryRun:[s] gracePeriodSeconds:l
  ignoreStoreReadErrorWithClusterBreakingPotential:b kind:s orphanDependents:b
  preconditions:Preconditions propagationPolicy:s
DownwardAPIProjection items:[DownwardAPIVolumeFile]
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode:i path:s
  resourceFieldRef:ResourceFieldSelector
DownwardAPIVolumeSource defaultMode:i items:[DownwardAPIVolumeFile]
EmptyDirVolumeSource medium:s sizeLimit:q
EndpointAddress hostname:s ip:s nodeName:s targetRef:ObjectReference
EndpointConditions ready:b serving:b terminating:b
EndpointHints forNodes:[ForNode] forZones:[ForZone]
EndpointPort appProtocol:s name:s port:i protocol:s
EndpointSlice addressType:s apiVersion:s endpoints:[SliceEndpoint] kind:s metadata:ObjectMeta
  ports:[SliceEndpointPort]
EndpointSubset addresses:[EndpointAddress] notReadyAddresses:[EndpointAddress]
  ports:[EndpointPort]
Endpoints apiVersion:s kind:s metadata:ObjectMeta subsets:[EndpointSubset]
EnvFromSource configMapRef:ConfigMapEnvSource prefix:s secretRef:SecretEnvSource
EnvVar name:s value:s valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector
  fileKeyRef:FileKeySelector resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer args:[s] command:[s] env:[EnvVar]@name envFrom:[EnvFromSource] image:s
  imagePullPolicy:s lifecycle:Lifecycle livenessProbe:Probe name:s
  ports:[ContainerPort]@containerPort readinessProbe:Probe resizePolicy:[ContainerResizePolicy]
  resources:ResourceRequirements restartPolicy:s restartPolicyRules:[ContainerRestartRule]
  securityContext:SecurityContext startupProbe:Probe stdin:b stdinOnce:b targetContainerName:s
  terminationMessagePath:s terminationMessagePolicy:s tty:b
  volumeDevices:[VolumeDevice]@devicePath volumeMounts:[VolumeMount]@mountPath workingDir:s
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
Event action:s apiVersion:s count:i eventTime:m firstTimestamp:t involvedObject:ObjectReference
  kind:s lastTimestamp:t message:s metadata:ObjectMeta reason:s related:ObjectReference
  reportingComponent:s reportingInstance:s series:EventSeries source:EventSource type:s
EventSeries count:i lastObservedTime:m
EventSource component:s host:s
Eviction apiVersion:s deleteOptions:DeleteOptions kind:s metadata:ObjectMeta
ExecAction command:[s]
ExternalDocumentation description:s url:s
FCVolumeSource fsType:s lun:i readOnly:b targetWWNs:[s] wwids:[s]
FileKeySelector key:s optional:b path:s volumeName:s
FlexVolumeSource driver:s fsType:s options:{s} readOnly:b secretRef:LocalObjectReference
FlockerVolumeSource datasetName:s datasetUUID:s
ForNode name:s
ForZone name:s
GCEPersistentDiskVolumeSource fsType:s partition:i pdName:s readOnly:b
GRPCAction port:i service:s
GitRepoVolumeSource directory:s repository:s revision:s
GlusterfsVolumeSource endpoints:s path:s readOnly:b
HTTPGetAction host:s httpHeaders:[HTTPHeader] path:s port:x scheme:s
HTTPHeader name:s value:s
HostAlias hostnames:[s] ip:s
HostIP ip:s
HostPathVolumeSource path:s type:s
IPBlock cidr:s except:[s]
ISCSIVolumeSource chapAuthDiscovery:b chapAuthSession:b fsType:s initiatorName:s iqn:s
  iscsiInterface:s lun:i portals:[s] readOnly:b secretRef:LocalObjectReference targetPortal:s
ImageVolumeSource pullPolicy:s reference:s
JSONSchemaProps $ref:s $schema:s additionalItems:* additionalProperties:* allOf:[JSONSchemaProps]
  anyOf:[JSONSchemaProps] default:* definitions:{JSONSchemaProps} dependencies:{*} description:s
  enum:[*] example:* exclusiveMaximum:b exclusiveMinimum:b externalDocs:ExternalDocumentation
  format:s id:s items:* maxItems:l maxLength:l maxProperties:l maximum:f minItems:l minLength:l
  minProperties:l minimum:f multipleOf:f not:JSONSchemaProps nullable:b oneOf:[JSONSchemaProps]
  pattern:s patternProperties:{JSONSchemaProps} properties:{JSONSchemaProps} required:[s] title:s
  type:s uniqueItems:b x-kubernetes-embedded-resource:b x-kubernetes-int-or-string:b
  x-kubernetes-list-map-keys:[s] x-kubernetes-list-type:s x-kubernetes-map-type:s
  x-kubernetes-preserve-unknown-fields:b x-kubernetes-validations:[ValidationRule]@rule
KeyToPath key:s mode:i path:s
LabelSelector matchExpressions:[LabelSelectorRequirement] matchLabels:{s}
LabelSelectorRequirement key:s operator:s values:[s]
Lease apiVersion:s kind:s metadata:ObjectMeta spec:LeaseSpec
LeaseSpec acquireTime:m holderIdentity:s leaseDurationSeconds:i leaseTransitions:i
  preferredHolder:s renewTime:m strategy:s
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:s
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LinuxContainerUser gid:l supplementalGroups:[l] uid:l
LoadBalancerIngress hostname:s ip:s ipMode:s ports:[PortStatus]
LoadBalancerStatus ingress:[LoadBalancerIngress]
LocalObjectReference name:s
NFSVolumeSource path:s readOnly:b server:s
Namespace apiVersion:s kind:s metadata:ObjectMeta spec:NamespaceSpec status:NamespaceStatus
NamespaceCondition lastTransitionTime:t message:s reason:s status:s type:s
NamespaceSpec finalizers:[s]
NamespaceStatus conditions:[NamespaceCondition]@type phase:s
NetworkPolicy apiVersion:s kind:s metadata:ObjectMeta spec:NetworkPolicySpec
NetworkPolicyEgressRule ports:[NetworkPolicyPort] to:[NetworkPolicyPeer]
NetworkPolicyIngressRule from:[NetworkPolicyPeer] ports:[NetworkPolicyPort]
NetworkPolicyPeer ipBlock:IPBlock namespaceSelector:LabelSelector podSelector:LabelSelector
NetworkPolicyPort endPort:i port:x protocol:s
NetworkPolicySpec egress:[NetworkPolicyEgressRule] ingress:[NetworkPolicyIngressRule]
  podSelector:LabelSelector policyTypes:[s]
Node apiVersion:s kind:s metadata:ObjectMeta spec:NodeSpec status:NodeStatus
NodeAddress address:s type:s
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeCondition lastHeartbeatTime:t lastTransitionTime:t message:s reason:s status:s type:s
NodeConfigSource configMap:ConfigMapNodeConfigSource
NodeConfigStatus active:NodeConfigSource assigned:NodeConfigSource error:s
  lastKnownGood:NodeConfigSource
NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint
NodeFeatures supplementalGroupsPolicy:b
NodeRuntimeHandler features:NodeRuntimeHandlerFeatures name:s
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:b userNamespaces:b
NodeSelector nodeSelectorTerms:[NodeSelectorTerm]
NodeSelectorRequirement key:s operator:s values:[s]
NodeSelectorTerm matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
NodeSpec configSource:NodeConfigSource externalID:s podCIDR:s podCIDRs:[s]@ providerID:s
  taints:[Taint] unschedulable:b
NodeStatus addresses:[NodeAddress]@type allocatable:{q} capacity:{q}
  conditions:[NodeCondition]@type config:NodeConfigStatus daemonEndpoints:NodeDaemonEndpoints
  features:NodeFeatures images:[ContainerImage] nodeInfo:NodeSystemInfo phase:s
  runtimeHandlers:[NodeRuntimeHandler] volumesAttached:[AttachedVolume] volumesInUse:[s]
NodeSwapStatus capacity:l
NodeSystemInfo architecture:s bootID:s containerRuntimeVersion:s kernelVersion:s
  kubeProxyVersion:s kubeletVersion:s machineID:s operatingSystem:s osImage:s swap:NodeSwapStatus
  systemUUID:s
ObjectFieldSelector apiVersion:s fieldPath:s
ObjectMeta annotations:{s} creationTimestamp:t deletionGracePeriodSeconds:l deletionTimestamp:t
  finalizers:[s]@ generateName:s generation:l labels:{s} name:s namespace:s
  ownerReferences:[OwnerReference]@uid resourceVersion:s selfLink:s uid:s
ObjectReference apiVersion:s fieldPath:s kind:s name:s namespace:s resourceVersion:s uid:s
OwnerReference apiVersion:s blockOwnerDeletion:b controller:b kind:s name:s uid:s
PersistentVolumeClaimSpec accessModes:[s] dataSource:TypedLocalObjectReference
  dataSourceRef:TypedObjectReference resources:VolumeResourceRequirements selector:LabelSelector
  storageClassName:s volumeAttributesClassName:s volumeMode:s volumeName:s
PersistentVolumeClaimTemplate metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName:s readOnly:b
PhotonPersistentDiskVolumeSource fsType:s pdID:s
Pod apiVersion:s kind:s metadata:ObjectMeta spec:PodSpec status:PodStatus
PodAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodAffinityTerm labelSelector:LabelSelector matchLabelKeys:[s] mismatchLabelKeys:[s]
  namespaceSelector:LabelSelector namespaces:[s] topologyKey:s
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodCertificateProjection certificateChainPath:s credentialBundlePath:s keyPath:s keyType:s
  maxExpirationSeconds:i signerName:s
PodCondition lastProbeTime:t lastTransitionTime:t message:s observedGeneration:l reason:s status:s
  type:s
PodDNSConfig nameservers:[s] options:[PodDNSConfigOption] searches:[s]
PodDNSConfigOption name:s value:s
PodExtendedResourceClaimStatus requestMappings:[ContainerExtendedResourceRequest]
  resourceClaimName:s
PodIP ip:s
PodOS name:s
PodReadinessGate conditionType:s
PodResourceClaim name:s resourceClaimName:s resourceClaimTemplateName:s
PodResourceClaimStatus name:s resourceClaimName:s
PodSchedulingGate name:s
PodSecurityContext appArmorProfile:AppArmorProfile fsGroup:l fsGroupChangePolicy:s runAsGroup:l
  runAsNonRoot:b runAsUser:l seLinuxChangePolicy:s seLinuxOptions:SELinuxOptions
  seccompProfile:SeccompProfile supplementalGroups:[l] supplementalGroupsPolicy:s sysctls:[Sysctl]
  windowsOptions:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds:l affinity:Affinity automountServiceAccountToken:b
  containers:[Container]@name dnsConfig:PodDNSConfig dnsPolicy:s enableServiceLinks:b
  ephemeralContainers:[EphemeralContainer]@name hostAliases:[HostAlias]@ip hostIPC:b hostNetwork:b
  hostPID:b hostUsers:b hostname:s hostnameOverride:s imagePullSecrets:[LocalObjectReference]@name
  initContainers:[Container]@name nodeName:s nodeSelector:{s} os:PodOS overhead:{q}
  preemptionPolicy:s priority:i priorityClassName:s readinessGates:[PodReadinessGate]
  resourceClaims:[PodResourceClaim]@name~ resources:ResourceRequirements restartPolicy:s
  runtimeClassName:s schedulerName:s schedulingGates:[PodSchedulingGate]@name
  securityContext:PodSecurityContext serviceAccount:s serviceAccountName:s setHostnameAsFQDN:b
  shareProcessNamespace:b subdomain:s terminationGracePeriodSeconds:l tolerations:[Toleration]
  topologySpreadConstraints:[TopologySpreadConstraint]@topologyKey volumes:[Volume]@name~
PodStatus conditions:[PodCondition]@type containerStatuses:[ContainerStatus]
  ephemeralContainerStatuses:[ContainerStatus]
  extendedResourceClaimStatus:PodExtendedResourceClaimStatus hostIP:s hostIPs:[HostIP]@ip
  initContainerStatuses:[ContainerStatus] message:s nominatedNodeName:s observedGeneration:l
  phase:s podIP:s podIPs:[PodIP]@ip qosClass:s reason:s resize:s
  resourceClaimStatuses:[PodResourceClaimStatus]@name~ startTime:t
PolicyRule apiGroups:[s] nonResourceURLs:[s] resourceNames:[s] resources:[s] verbs:[s]
PortStatus error:s port:i protocol:s
PortworxVolumeSource fsType:s readOnly:b volumeID:s
Preconditions resourceVersion:s uid:s
PreferredSchedulingTerm preference:NodeSelectorTerm weight:i
PriorityClass apiVersion:s description:s globalDefault:b kind:s metadata:ObjectMeta
  preemptionPolicy:s value:i
Probe exec:ExecAction failureThreshold:i grpc:GRPCAction httpGet:HTTPGetAction
  initialDelaySeconds:i periodSeconds:i successThreshold:i tcpSocket:TCPSocketAction
  terminationGracePeriodSeconds:l timeoutSeconds:i
ProjectedVolumeSource defaultMode:i sources:[VolumeProjection]
QuobyteVolumeSource group:s readOnly:b registry:s tenant:s user:s volume:s
RBDVolumeSource fsType:s image:s keyring:s monitors:[s] pool:s readOnly:b
  secretRef:LocalObjectReference user:s
ResourceClaim name:s request:s
ResourceFieldSelector containerName:s divisor:q resource:s
ResourceHealth health:s resourceID:s
ResourceRequirements claims:[ResourceClaim] limits:{q} requests:{q}
ResourceStatus name:s resources:[ResourceHealth]
Role apiVersion:s kind:s metadata:ObjectMeta rules:[PolicyRule]
RoleBinding apiVersion:s kind:s metadata:ObjectMeta roleRef:RoleRef subjects:[Subject]
RoleRef apiGroup:s kind:s name:s
SELinuxOptions level:s role:s type:s user:s
Scale apiVersion:s kind:s metadata:ObjectMeta spec:ScaleSpec status:ScaleStatus
ScaleIOVolumeSource fsType:s gateway:s protectionDomain:s readOnly:b
  secretRef:LocalObjectReference sslEnabled:b storageMode:s storagePool:s system:s volumeName:s
ScaleSpec replicas:i
ScaleStatus replicas:i selector:s
SeccompProfile localhostProfile:s type:s
Secret apiVersion:s data:{B} immutable:b kind:s metadata:ObjectMeta stringData:{s} type:s
SecretEnvSource name:s optional:b
SecretKeySelector key:s name:s optional:b
SecretProjection items:[KeyToPath] name:s optional:b
SecretVolumeSource defaultMode:i items:[KeyToPath] optional:b secretName:s
SecurityContext allowPrivilegeEscalation:b appArmorProfile:AppArmorProfile
  capabilities:Capabilities privileged:b procMount:s readOnlyRootFilesystem:b runAsGroup:l
  runAsNonRoot:b runAsUser:l seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
  windowsOptions:WindowsSecurityContextOptions
SelectableField jsonPath:s
Service apiVersion:s kind:s metadata:ObjectMeta spec:ServiceSpec status:ServiceStatus
ServiceAccount apiVersion:s automountServiceAccountToken:b imagePullSecrets:[LocalObjectReference]
  kind:s metadata:ObjectMeta secrets:[ObjectReference]@name
ServiceAccountTokenProjection audience:s expirationSeconds:l path:s
ServicePort appProtocol:s name:s nodePort:i port:i protocol:s targetPort:x
ServiceSpec allocateLoadBalancerNodePorts:b clusterIP:s clusterIPs:[s] externalIPs:[s]
  externalName:s externalTrafficPolicy:s healthCheckNodePort:i internalTrafficPolicy:s
  ipFamilies:[s] ipFamilyPolicy:s loadBalancerClass:s loadBalancerIP:s
  loadBalancerSourceRanges:[s] ports:[ServicePort]@port publishNotReadyAddresses:b selector:{s}
  sessionAffinity:s sessionAffinityConfig:SessionAffinityConfig trafficDistribution:s type:s
ServiceStatus conditions:[Condition]@type loadBalancer:LoadBalancerStatus
SessionAffinityConfig clientIP:ClientIPConfig
SleepAction seconds:l
SliceEndpoint addresses:[s] conditions:EndpointConditions deprecatedTopology:{s}
  hints:EndpointHints hostname:s nodeName:s targetRef:ObjectReference zone:s
SliceEndpointPort appProtocol:s name:s port:i protocol:s
StorageOSVolumeSource fsType:s readOnly:b secretRef:LocalObjectReference volumeName:s
  volumeNamespace:s
Subject apiGroup:s kind:s name:s namespace:s
Sysctl name:s value:s
TCPSocketAction host:s port:x
Taint effect:s key:s timeAdded:t value:s
Toleration effect:s key:s operator:s tolerationSeconds:l value:s
TopologySpreadConstraint labelSelector:LabelSelector matchLabelKeys:[s] maxSkew:i minDomains:i
  nodeAffinityPolicy:s nodeTaintsPolicy:s topologyKey:s whenUnsatisfiable:s
TypedLocalObjectReference apiGroup:s kind:s name:s
TypedObjectReference apiGroup:s kind:s name:s namespace:s
ValidationRule fieldPath:s message:s messageExpression:s optionalOldSelf:b reason:s rule:s
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
  azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
  configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
  emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource
  flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
  gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
  glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource
  iscsi:ISCSIVolumeSource name:s nfs:NFSVolumeSource
  persistentVolumeClaim:PersistentVolumeClaimVolumeSource
  photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
  projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource
  scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource
  vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath:s name:s
VolumeMount mountPath:s mountPropagation:s name:s readOnly:b recursiveReadOnly:s subPath:s
  subPathExpr:s
VolumeMountStatus mountPath:s name:s readOnly:b recursiveReadOnly:s
VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
  downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection
  secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements limits:{q} requests:{q}
VsphereVirtualDiskVolumeSource fsType:s storagePolicyID:s storagePolicyName:s volumePath:s
WebhookClientConfig caBundle:B service:CrdServiceReference url:s
WebhookConversion clientConfig:WebhookClientConfig conversionReviewVersions:[s]
WeightedPodAffinityTerm podAffinityTerm:PodAffinityTerm weight:i
WindowsSecurityContextOptions gmsaCredentialSpec:s gmsaCredentialSpecName:s hostProcess:b
  runAsUserName:s
"""
