package serve

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// pythonOfKServe returns the Python that make test-clients installs KServe and Schemathesis for.
func pythonOfKServe(t *testing.T) string {
	python := os.Getenv("ONWARD_KSERVE")
	if python == "" {
		t.Skip("ONWARD_KSERVE is not set: KServe's client is not tested; make test-clients does")
	}
	return python
}

func simpleServer(t *testing.T) *Server {
	return newServer(t,
		writeRepo(t, map[string][]byte{"simple/config.pbtxt": []byte("max_batch_size: 8"),
			"simple/1/model.onnx": simple(t, tensor.TypeInt32, "n", 16)}), nil)
}

// TestKServeClient calls the server with KServe's Python clients.
func TestKServeClient(t *testing.T) {
	python := pythonOfKServe(t)
	rest, rpc := listen(t, simpleServer(t))
	checkClients(t, exec.CommandContext(t.Context(), python, "testdata/kserve_clients.py", rest, rpc))
}

// TestKServeOpenAPI sends requests that Schemathesis makes from the protocol's OpenAPI file, valid
// and invalid ones, and checks status, headers and bodies of the responses against it. The file
// comes from KServe's module.
func TestKServeOpenAPI(t *testing.T) {
	python := pythonOfKServe(t)
	const module = "github.com/kserve/kserve@v0.16.0"
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if json.Unmarshal(out, &m) != nil || m.Dir == "" {
		t.Skipf("%s cannot be downloaded, so its OpenAPI file is not checked: %v %s", module, err, m.Error)
	}
	text, err := os.ReadFile(filepath.Join(m.Dir, "docs/predict-api/v2/rest_predict_v2.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The file writes path parameters as ${NAME}, which OpenAPI does not know.
	api := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(api, []byte(strings.ReplaceAll(string(text), "${", "{")), 0o666); err != nil {
		t.Fatal(err)
	}
	rest, _ := listen(t, simpleServer(t))
	// drawn names, and those of the model
	for _, config := range []string{"", "[parameters]\nMODEL_NAME = \"simple\"\nMODEL_VERSION = \"1\"\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(python), "schemathesis"), "run", api,
			"--url", "http://"+rest, "--no-color", "--seed", "1", "--max-examples", "50",
			"--checks",
			"not_a_server_error,content_type_conformance,response_headers_conformance,response_schema_conformance")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		count := regexp.MustCompile(`(\d+) generated, (\d+) passed`).FindStringSubmatch(string(out))
		if err != nil || count == nil || count[1] != count[2] {
			t.Errorf("%v\n%s", err, out)
			continue
		}
		t.Logf("%s requests", count[1])
	}
}
