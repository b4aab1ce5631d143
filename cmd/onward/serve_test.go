//go:build !core

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// records passes on the JSON log records that are written to it.
type records struct {
	mu    sync.Mutex
	rest  []byte
	c     chan map[string]any
	stuck atomic.Pointer[chan struct{}] // writes wait until it is closed; nil: they do not wait
}

func (r *records) Write(b []byte) (int, error) {
	if c := r.stuck.Load(); c != nil {
		<-*c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, b...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		m := map[string]any{}
		if json.Unmarshal(line, &m) != nil {
			m["text"] = string(line)
		}
		r.c <- m
		r.rest = rest
	}
}

func TestServeAnswersUntilTheSignal(t *testing.T) {
	addresses, stop, code := startServe(t, "digits.onnx", "mul_1.onnx")
	for _, a := range addresses {
		if !strings.HasPrefix(a, "127.0.0.1:") {
			t.Errorf("address %s, want loopback", a)
		}
	}
	for _, x := range []struct{ server, path, want string }{
		{"http", "/v2/models/mul_1", `"name":"mul_1"`},
		{"http", "/healthz", ""},
		{"metrics", "/metrics", "nv_inference_pending_request_count"},
	} {
		r, err := http.Get("http://" + addresses[x.server] + x.path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(b), x.want) {
			t.Errorf("%s: %d %s, %v", x.path, r.StatusCode, b, err)
		}
	}
	stop()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
}

func TestServeUsage(t *testing.T) {
	dir := t.TempDir()
	empty := writeFile(t, "tokens", []byte("\n\n"), nil)
	if err := os.MkdirAll(filepath.Join(dir, "repo", "m", "1"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "requires at least 1 arg"},
		{[]string{"none.onnx"}, exitFailed, "no file, folder or example"},
		{[]string{filepath.Join(dir, "repo")}, exitFailed, "model.onnx"},
		{[]string{dir, filepath.Join(dir, "repo")}, exitUsage, "two repositories"},
		{[]string{"digits.onnx", "--http", "", "--grpc", "", "--metrics", ""}, exitUsage, "all empty"},
		{[]string{"digits.onnx", "--http", "8000"}, exitUsage, "want host:port"},
		{[]string{"digits.onnx", "--tls-cert", "cert.pem"}, exitUsage, "--tls-key"},
		{[]string{"digits.onnx", "--tls-cert", "none.pem", "--tls-key", "none.pem"}, exitFailed, "none.pem"},
		{[]string{"digits.onnx", "--token-file", empty}, exitFailed, "no token"},
		{[]string{"digits.onnx", "--max-memory", "-1"}, exitUsage, "--max-memory is -1"},
		{[]string{"digits.onnx", "--max-body", "-1"}, exitFailed, "MaxBody"},
		{[]string{"digits.onnx", "--otlp-endpoint", "4318"}, exitFailed, "want a URL"},
		{[]string{"digits.onnx", "--provider", "abc"}, exitUsage, "unknown provider"},
	} {
		args := append([]string{"serve"}, c.args...)
		if code, _, stderr := invoke(t, args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s, want %d and %q", args, code, stderr, c.code, c.want)
		}
	}
}

// TestFolderName names model folders after their path.
func TestFolderName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{"a/minilm": "minilm", "minilm/": "minilm", ".": filepath.Base(dir),
		"hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/c9745ed1": "all-MiniLM-L6-v2",
		"snapshots/c9745ed1": "c9745ed1"} {
		if got, err := folderName(path); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
}
