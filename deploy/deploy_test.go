// Package deploy tests the manifests of this folder.
package deploy

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// strict decodes a file without unknown and duplicate fields.
func strict(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(read(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestKubernetesManifests(t *testing.T) {
	var deployment appsv1.Deployment
	var service corev1.Service
	var scaler autoscalingv2.HorizontalPodAutoscaler
	var job batchv1.Job
	strict(t, "kubernetes/deployment.yaml", &deployment)
	strict(t, "kubernetes/service.yaml", &service)
	strict(t, "kubernetes/autoscaler.yaml", &scaler)
	strict(t, "kubernetes/map.yaml", &job)

	pod := deployment.Spec.Template
	for k, v := range service.Spec.Selector {
		if pod.Labels[k] != v || deployment.Spec.Selector.MatchLabels[k] != v {
			t.Errorf("the service selects %s=%s, but the pods have %v", k, v, pod.Labels)
		}
	}
	ports := map[string]int32{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range service.Spec.Ports {
		if ports[p.TargetPort.StrVal] == 0 {
			t.Errorf("the service's port %s has target %s, which the pods lack", p.Name, p.TargetPort.StrVal)
		}
	}
	for name, p := range map[string]*corev1.Probe{"startup": pod.Spec.Containers[0].StartupProbe,
		"liveness": pod.Spec.Containers[0].LivenessProbe, "readiness": pod.Spec.Containers[0].ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || ports[p.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("%s probe: %v, want one on a port of the container", name, p)
		}
	}
	if scaler.Spec.ScaleTargetRef.Name != deployment.Name || scaler.Spec.ScaleTargetRef.Kind != deployment.Kind {
		t.Errorf("the autoscaler's target is %v, want the Deployment %s", scaler.Spec.ScaleTargetRef, deployment.Name)
	}
	if m := scaler.Spec.Metrics[0].Pods.Metric.Name; !bytes.Contains(read(t, "kubernetes/prometheus-adapter.yaml"),
		[]byte("as: "+m)) {
		t.Errorf("prometheus-adapter.yaml does not provide the autoscaler's metric %s", m)
	}
	if *job.Spec.CompletionMode != batchv1.IndexedCompletion ||
		!strings.Contains(strings.Join(job.Spec.Template.Spec.Containers[0].Args, " "),
			fmt.Sprintf("/%d ", *job.Spec.Completions)) {
		t.Errorf("the job has %d completions, want as many as --shard has parts in %v", *job.Spec.Completions,
			job.Spec.Template.Spec.Containers[0].Args)
	}
	for name, s := range map[string]corev1.PodSpec{"deployment": pod.Spec, "job": job.Spec.Template.Spec} {
		if s.SecurityContext == nil || s.SecurityContext.RunAsNonRoot == nil || !*s.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: want runAsNonRoot", name)
		}
		c := s.Containers[0].SecurityContext
		if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation {
			t.Errorf("%s: want a read-only root file system without privilege escalation", name)
		}
	}
}

const kserve = "github.com/kserve/kserve@v0.16.0"

// TestKServeManifests validates against the schemas of KServe's custom resources, which come from
// its module.
func TestKServeManifests(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", kserve)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || module.Dir == "" {
		t.Skipf("%s cannot be downloaded, so its schemas are not checked: %v %s", kserve, err, module.Error)
	}
	for file, plural := range map[string]string{"kserve/clusterservingruntime.yaml": "clusterservingruntimes",
		"kserve/inferenceservice.yaml": "inferenceservices"} {
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema spec.Schema }
				}
			}
		}
		if err := yaml.Unmarshal(
			read(t, filepath.Join(module.Dir, "config/crd/full/serving.kserve.io_"+plural+".yaml")), &crd); err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		strict(t, file, &doc)
		found := false
		for _, v := range crd.Spec.Versions {
			if doc["apiVersion"] != crd.Spec.Group+"/"+v.Name || doc["kind"] != crd.Spec.Names.Kind {
				continue
			}
			found = true
			s := v.Schema.OpenAPIV3Schema
			delete(s.Properties, "metadata")
			meta := doc["metadata"]
			delete(doc, "metadata")
			closeSchema(&s)
			if err := validate.NewSchemaValidator(&s, nil, "", strfmt.Default).Validate(doc).AsError(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			doc["spec"].(map[string]any)["misspelt"] = true
			if validate.NewSchemaValidator(&s, nil, "", strfmt.Default).Validate(doc).IsValid() {
				t.Errorf("%s: the schema takes an unknown field", file)
			}
			if meta.(map[string]any)["name"] == "" {
				t.Errorf("%s has no name", file)
			}
		}
		if !found {
			t.Errorf("%s is %v %v, which KServe does not define", file, doc["apiVersion"], doc["kind"])
		}
	}
}

// closeSchema makes a schema refuse fields that it does not list, which Kubernetes would drop.
func closeSchema(s *spec.Schema) {
	if p, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); len(s.Properties) > 0 &&
		s.AdditionalProperties == nil && !p {
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: false}
	}
	for k, p := range s.Properties {
		if b, _ := p.Extensions.GetBool("x-kubernetes-int-or-string"); !b {
			closeSchema(&p)
			s.Properties[k] = p
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		closeSchema(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		closeSchema(s.AdditionalProperties.Schema)
	}
}

func TestCompose(t *testing.T) {
	details := types.ConfigDetails{WorkingDir: "compose",
		ConfigFiles: []types.ConfigFile{{Filename: "compose/compose.yaml"}}, Environment: types.Mapping{"MODELS": "/models"}}
	p, err := loader.LoadWithContext(t.Context(), details)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); err != nil && v.Source != "/models" {
				t.Errorf("%s mounts %s: %v", s.Name, v.Source, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %q, want loopback", s.Name, port.HostIP)
			}
		}
	}
	details.Environment = nil
	if _, err := loader.LoadWithContext(t.Context(), details); err == nil ||
		!strings.Contains(err.Error(), "folder of the models") {
		t.Errorf("without MODELS: %v, want an error", err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(read(t, "compose/grafana/dashboards/onward.json"), &dashboard); err != nil ||
		len(dashboard.Panels) == 0 {
		t.Errorf("dashboard: %d panels, %v", len(dashboard.Panels), err)
	}
	for _, f := range []string{"compose/prometheus.yml", "compose/grafana/provisioning/datasources/prometheus.yml",
		"compose/grafana/provisioning/dashboards/onward.yml", "kubernetes/prometheus-adapter.yaml"} {
		strict(t, f, new(map[string]any))
	}
}

// buildStatic builds the command with tags, and checks that it needs no other file.
func buildStatic(t *testing.T, tags, exe string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o",
		exe, "./cmd/onward")
	// make test-deploy sets GOWORK=off
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("the binary with the tags %s is not static", tags)
		}
	}
}

// TestMapImage builds the image's program for the Job in kubernetes/map.yaml.
func TestMapImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("images hold programs for Linux, which this system cannot run")
	}
	tags := regexp.MustCompile(`--build-arg TAGS=(\S+)`).FindSubmatch(read(t, "Dockerfile"))
	if tags == nil {
		t.Fatal("the Dockerfile does not say how to build the image for the Job")
	}
	exe := filepath.Join(t.TempDir(), "onward")
	buildStatic(t, string(tags[1]), exe)
	out, err := exec.CommandContext(t.Context(), exe, "map", "../datasets/models/logreg_iris.onnx", "--help").
		CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--shard")) {
		t.Errorf("onward map --help: %v\n%s", err, out)
	}
}

// TestImage builds what the image holds, and runs it as the image would: alone in its root, as the
// unprivileged user, with the image's arguments.
func TestImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("images hold programs for Linux, which this system cannot run")
	}
	docker := string(read(t, "Dockerfile"))
	stage := docker[strings.LastIndex(docker, "\nFROM "):]
	if !strings.HasPrefix(stage, "\nFROM scratch\n") || strings.Count(stage, "COPY ") != 1 ||
		!strings.Contains(stage, "\nUSER 65532:65532\n") {
		t.Fatalf("last stage:%s\nwant scratch with one file and an unprivileged user", stage)
	}
	tags := regexp.MustCompile(`ARG TAGS=(\S+)`).FindStringSubmatch(docker)
	var entry, args []string
	for what, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &args} {
		m := regexp.MustCompile(`(?m)^` + what + ` (\[.*\])$`).FindStringSubmatch(stage)
		if m == nil || json.Unmarshal([]byte(m[1]), into) != nil {
			t.Fatalf("%s is missing, or not in the exec form", what)
		}
	}
	root := t.TempDir()
	exe := filepath.Join(root, entry[0])
	buildStatic(t, tags[1], exe)
	info, err := os.Stat(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the image holds %.1f MB", float64(info.Size())/1e6)
	if info.Size() >= 40e6 {
		t.Errorf("the image holds %d bytes, want less than 40 MB", info.Size())
	}
	if os.Getuid() != 0 {
		t.Skip("chroot needs root: the binary has not been run alone in its root")
	}
	model := read(t, "../datasets/models/digits.onnx")
	if err := os.MkdirAll(filepath.Join(root, "models/digits/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "models/digits/1/model.onnx"), model, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the user of the image enters the test's folders
		if info, err := os.Stat(dir); err != nil || info.Mode()&1 == 0 {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Free ports instead of those of the image, and loopback.
	cmd := exec.CommandContext(ctx, entry[0],
		append(args, "--listen", "127.0.0.1", "--http", ":0", "--grpc", ":0", "--metrics", ":0")...)
	cmd.Path, cmd.Dir, cmd.Env = entry[0], "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	logs, w := io.Pipe()
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { err := cmd.Wait(); w.Close(); ended <- err }()
	var text bytes.Buffer
	d := json.NewDecoder(io.TeeReader(logs, &text))
	for {
		var r struct{ Msg, Protocol, Address string }
		if err := d.Decode(&r); err != nil {
			t.Fatalf("the server ended: %v %v\n%s", err, <-ended, &text)
		}
		if r.Protocol != "http" {
			continue
		}
		go io.Copy(io.Discard, logs)
		resp, err := http.Get("http://" + r.Address + "/v2/models/digits")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(`"image"`)) {
			t.Errorf("%s %s, %v", resp.Status, b, err)
		}
		break
	}
	cancel()
	if err := <-ended; err != nil && err != context.Canceled {
		t.Errorf("after SIGTERM: %v", err)
	}
}
