{{- define "siltstone.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "siltstone.selector" -}}
app.kubernetes.io/name: siltstone
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "siltstone.labels" -}}
{{ include "siltstone.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What every pod has. Without enableServiceLinks: false a service named siltstone would put SILTSTONE_PORT into the
environment, which is not a setting, so every start would be refused. */}}
{{- define "siltstone.pod" -}}
serviceAccountName: {{ include "siltstone.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "siltstone.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The store and its secrets. */}}
{{- define "siltstone.environment" -}}
- {name: SILTSTONE_STORE, value: /store}
- {name: SILTSTONE_CONFIG, value: /etc/siltstone/siltstone.toml}
{{- with .Values.secrets.s3 }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ $key }}
  valueFrom: {secretKeyRef: {name: {{ $.Values.secrets.s3 }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- with .Values.secrets.postgresql }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: PGPASSWORD}}
{{- end }}
{{- end }}

{{- define "siltstone.mounts" -}}
- {name: store, mountPath: /store}
- {name: tmp, mountPath: /tmp}
- {name: settings, mountPath: /etc/siltstone/siltstone.toml, subPath: siltstone.toml, readOnly: true}
{{- if .Values.secrets.files }}
- {name: secrets, mountPath: /etc/siltstone/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- define "siltstone.volumes" -}}
- {name: tmp, emptyDir: {}}
- {name: settings, configMap: {name: {{ include "siltstone.name" . }}}}
{{- with .Values.secrets.files }}
- {name: secrets, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{- define "siltstone.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
