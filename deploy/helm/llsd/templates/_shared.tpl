{{- define "llsd.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Copies of manifests in deploy/kustomize, with the release's namespace. */ -}}
{{- define "llsd.copied" -}}
{{- $root := index . 0 }}
{{- range $path, $_ := $root.Files.Glob (printf "files/%s/*.yaml" (index . 1)) }}
---
{{ $root.Files.Get $path | replace "llsd-system" $root.Release.Namespace }}
{{- end }}
{{- end -}}

{{- define "llsd.injectCA" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/llsd-webhook
{{- end -}}
