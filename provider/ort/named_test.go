package ort_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/tensor"
)

// TestNamedExecutionProvider adds the CPU execution provider by name, as a device, and
// checks the errors for unknown devices and libraries.
func TestNamedExecutionProvider(t *testing.T) {
	open := func(kv ...string) (*onward.Session, error) {
		c := config(t, kv...)
		c.Name = "ort"
		return onward.OpenModel(t.Context(), nativetest.Scale(),
			&onward.SessionOptions{Providers: []onward.ProviderConfig{c}})
	}
	for _, kv := range [][]string{{"execution_provider", "CPUExecutionProvider"},
		{"execution_provider", "CPUExecutionProvider", "execution_provider_device", "cpu"}} {
		s, err := open(kv...)
		if err != nil {
			t.Fatal(err)
		}
		feed := onward.Values{}
		for _, a := range s.Inputs() {
			shape := make([]int, len(a.Shape))
			for i, d := range a.Shape {
				shape[i] = int(max(d.Value, 1))
			}
			feed[a.Name] = tensor.Must(tensor.Zeros(a.ElementType().Elem, shape...))
		}
		if _, err := s.Run(t.Context(), feed, nil); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	text := filepath.Join(t.TempDir(), "libplugin.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kv   []string
		want string
	}{
		{[]string{"execution_provider", "NoSuchProvider"}, "NoSuchProvider"},
		{[]string{"execution_provider", "XNNPACK"}, "XNNPACK"},
		{[]string{"execution_provider", "CPUExecutionProvider", "execution_provider_device", "npu"}, "execution provider CPUExecutionProvider has no such device; available are CPUExecutionProvider (cpu)"},
		{[]string{"execution_provider", "Plug", "execution_provider_library", "/nowhere/libplug.so"}, "library /nowhere/libplug.so of execution provider Plug"},
		{[]string{"execution_provider", "Plug", "execution_provider_library", text}, text},
	} {
		s, err := open(c.kv...)
		if err == nil {
			s.Close()
		}
		var st *onward.StatusError
		if !errors.As(err, &st) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.kv, err, c.want)
		}
	}
}
