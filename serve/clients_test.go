package serve

import (
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/onward-ml/onward/tensor"
)

// TestTritonClient calls the server with Triton's Python clients, which make test-clients installs.
func TestTritonClient(t *testing.T) {
	python := os.Getenv("ONWARD_TRITONCLIENT")
	if python == "" {
		t.Skip("ONWARD_TRITONCLIENT is not set: Triton's clients are not tested; make test-clients does")
	}
	config := []byte("max_batch_size: 8 dynamic_batching {}")
	s := newServer(t, writeRepo(t, map[string][]byte{"simple/config.pbtxt": config, "simple/1/model.onnx": simple(t, tensor.TypeInt32, "n", 16),
		"simple_identity/config.pbtxt": config, "simple_identity/1/model.onnx": identity(t, tensor.TypeString, "n", 16)}), &Options{AllowModelControl: true})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	go g.Serve(l)
	defer g.Stop()
	out, err := exec.CommandContext(t.Context(), python, "testdata/clients.py", strings.TrimPrefix(web.URL, "http://"), l.Addr().String()).CombinedOutput()
	passed := 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "ok "):
			passed++
		case strings.HasPrefix(line, "FAIL "):
			t.Error(line)
		}
	}
	if err != nil || passed == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%d checks passed", passed)
}
