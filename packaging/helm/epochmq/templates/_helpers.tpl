{{- define "epochmq.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Labels that select the pods of one component: dict "root" $ "component" NAME. */}}
{{- define "epochmq.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "epochmq.labels" -}}
{{ include "epochmq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end }}

{{- define "epochmq.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The addresses of the pods of a StatefulSet: dict "root" $ "component" NAME "count" N "port" P,
and "prefix" for the ids of controllers. */}}
{{- define "epochmq.addresses" -}}
{{- $name := printf "%s-%s" (include "epochmq.name" .root) .component -}}
{{- $list := list -}}
{{- range $i := until (int .count) -}}
{{- $id := ternary (printf "n%d-" $i) "" (default false $.ids) -}}
{{- $list = append $list (printf "%s%s-%d.%s.%s.svc:%d" $id $name $i $name $.root.Release.Namespace (int $.port)) -}}
{{- end -}}
{{- join ";" $list -}}
{{- end }}

{{- define "epochmq.namesrv" -}}
{{- include "epochmq.addresses" (dict "root" . "component" "namesrv" "count" .Values.namesrv.replicas "port" 9876) }}
{{- end }}

{{- /* Properties of a server: dict "root" $ "own" MAP "more" MAP, where `more` is the user's. "noCommon"
leaves out .Values.config, and "noTls" the options of TLS. */}}
{{- define "epochmq.properties" -}}
{{- $all := merge (dict) .more .own -}}
{{- if not .noCommon -}}
{{- $all = merge (dict) .more .root.Values.config .own -}}
{{- end -}}
{{- if and .root.Values.tls.secretName (not .noTls) -}}
{{- $tls := dict
  "tls.enable" "true"
  "tls.server.mode" .root.Values.tls.mode
  "tls.server.certPath" "/etc/epochmq-tls/tls.crt"
  "tls.server.keyPath" "/etc/epochmq-tls/tls.key"
  "tls.client.authServer" "true"
  "tls.client.trustCertPath" "/etc/epochmq-tls/ca.crt" -}}
{{- $all = merge $all $tls -}}
{{- end -}}
{{- $lines := list -}}
{{- range $key, $value := $all -}}
{{- $lines = append $lines (printf "%s = %v" $key $value) -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end }}

{{- /* Options of the metrics, on the port of the probes. */}}
{{- define "epochmq.metrics" -}}
bindAddress: 0.0.0.0
metricsExporterType: PROM
metricsPromExporterHost: 0.0.0.0
logFormat: json
{{- end }}

{{- define "epochmq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "epochmq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The part of a pod that all servers share: dict "root" $ "component" NAME. */}}
{{- define "epochmq.podCommon" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "epochmq.podSecurity" . | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "epochmq.selector" . | nindent 14 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "epochmq.selector" . | nindent 8 }}
{{- end }}

{{- define "epochmq.mounts" -}}
- name: data
  mountPath: /var/lib/epochmq
- name: config
  mountPath: /etc/epochmq
  readOnly: true
{{- if .Values.tls.secretName }}
- name: tls
  mountPath: /etc/epochmq-tls
  readOnly: true
{{- end }}
- name: tmp
  mountPath: /tmp
{{- end }}

{{- /* Volumes of a pod: dict "root" $ "config" NAME of the Secret with the properties. */}}
{{- define "epochmq.volumes" -}}
- name: config
  secret:
    secretName: {{ .config }}
- name: tmp
  emptyDir: {}
{{- if .root.Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ .root.Values.tls.secretName }}
{{- end }}
{{- end }}

{{- define "epochmq.claim" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .storage }}
{{- end }}

{{- define "epochmq.podIp" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}

{{- define "epochmq.headless" -}}
{{- $name := printf "%s-%s" (include "epochmq.name" .root) .component }}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "epochmq.labels" . | nindent 4 }}
spec:
  clusterIP: None
  # Servers find each other before they are ready.
  publishNotReadyAddresses: true
  selector:
    {{- include "epochmq.selector" . | nindent 4 }}
  ports:
    {{- range $port, $number := .ports }}
    - name: {{ $port }}
      port: {{ $number }}
      targetPort: {{ $port }}
    {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "epochmq.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "epochmq.selector" . | nindent 6 }}
{{- end }}

{{- define "epochmq.configSecret" -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ include "epochmq.name" .root }}-{{ .component }}
  labels:
    {{- include "epochmq.labels" . | nindent 4 }}
stringData:
  server.properties: |
    {{- include "epochmq.properties" . | nindent 4 }}
{{- end }}
